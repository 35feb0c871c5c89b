// CUDA's attention without documents: by cuDNN for the shapes of bf16 that it takes, and by Kokkos teams for
// all others.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "kernels/attention_backends.hpp"
#include "kernels/attention_cudnn.hpp"
#include "kernels/gpu_scratch.hpp"

namespace weft::kernels::cuda {

namespace {

/// Whether cuDNN takes the shape where its sums may be in any order.
template <class Kernel, class... Bounds>
bool takes_any_order(AttentionShape s, const Bounds&... bounds) {
  if (!s.deterministic) return false;
  s.deterministic = false;
  try {
    const Kernel kernel(s, bounds...);
    return true;
  } catch (const std::exception&) {  // it was only a question
    return false;
  }
}

/// What cuDNN prepared for the shape, at the first call, which the plan makes when it asks for scratch; null
/// where cuDNN refused. It is never destroyed, because static objects outlive CUDA.
template <class Kernel, class... Bounds>
Kernel* kernel_for(const char* what, const AttentionShape& s, DType t, const Bounds&... bounds) {
  static auto& kernels = *new std::map<AttentionShape, std::unique_ptr<Kernel>>;
  if (t != DType::bf16) return nullptr;
  auto found = kernels.find(s);
  if (found == kernels.end()) {
    std::unique_ptr<Kernel> made;
    try {
      made = std::make_unique<Kernel>(s, bounds...);
    } catch (const cudnn::NotSupported& e) {
      const std::string why = e.what();
      log::warn_for_all(
          "{} of batch {}, seq {}, heads {}, kv_heads {}, head_dim {} runs without tensor cores, which takes "
          "many times as long: cuDNN does not take it ({}); {}",
          what, s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, why.substr(0, why.find('\n')),
          takes_any_order<Kernel>(s, bounds...)
              ? "it takes it with precision.deterministic = false, and a newer cuDNN may without"
              : "a newer cuDNN may, or another shape (docs/kernels.md, \"Attention on CUDA\")");
    }
    found = kernels.emplace(s, std::move(made)).first;
  }
  return found->second.get();
}

/// The shape at the first place among the ranks that share its sequences. Its queries see the most keys, so
/// that its scratch is planned on all of them.
AttentionShape at_first_place(AttentionShape s) {
  s.place = 0;
  return s;
}

cudnn::Attention* forward(const AttentionShape& s, DType t) {
  if (s.place == 0) return kernel_for<cudnn::Attention>("attention", s, t);
  const cudnn::Attention* const first = forward(at_first_place(s), t);
  return first != nullptr ? kernel_for<cudnn::Attention>("attention", s, t, *first) : nullptr;
}

cudnn::AttentionBackward* backward(const AttentionShape& s, DType t) {
  if (s.place == 0)
    return kernel_for<cudnn::AttentionBackward>("attention_grad", s, t, gpu::most_attention_bytes);
  const cudnn::AttentionBackward* const first = backward(at_first_place(s), t);
  return first != nullptr ? kernel_for<cudnn::AttentionBackward>("attention_grad", s, t, *first) : nullptr;
}

}  // namespace

void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions) {
  cudnn::Attention* const fused = forward(shape, t);
  if (fused != nullptr) return fused->run(space, q, k, v, o, lse, scratch);
  team::attention(space, shape, t, q, k, v, o, lse, scratch, positions);
}

std::size_t attention_scratch_bytes(AttentionShape shape, DType t) {
  const cudnn::Attention* const fused = forward(at_first_place(shape), t);
  return std::max(fused != nullptr ? fused->scratch_bytes() : 0, team::attention_scratch_bytes(shape, t));
}

void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad) {
  cudnn::AttentionBackward* const fused = backward(shape, t);
  if (fused != nullptr) return fused->run(space, grad);
  team::attention_grad(space, shape, t, grad);
}

std::size_t attention_grad_scratch_bytes(AttentionShape shape, DType t) {
  const cudnn::AttentionBackward* const fused = backward(at_first_place(shape), t);
  return std::max(fused != nullptr ? fused->scratch_bytes() : 0,
                  team::attention_grad_scratch_bytes(shape, t));
}

void prepare_attention(AttentionShape shape, DType t) {
  forward(shape, t);
}

void prepare_attention_grad(AttentionShape shape, DType t) {
  backward(shape, t);
}

}  // namespace weft::kernels::cuda
