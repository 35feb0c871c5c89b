// CUDA's attention: cuDNN for the shapes of bf16 that it takes, Kokkos teams for the rest and for documents.
#include <algorithm>
#include <map>

#include "base/log.hpp"
#include "kernels/attention_backends.hpp"
#include "kernels/attention_cudnn.hpp"

namespace weft::kernels::cuda {

namespace {

/// Of a backward for which cuDNN keeps the gradients of all scores: 8 heads of 8192 tokens fit, and fill a
/// device.
constexpr std::size_t most_scratch_bytes = std::size_t{1100} << 20;

/// What cuDNN prepared for the shape, at the first call, which the plan makes when it asks for scratch; null
/// where it refused. Never destroyed: static objects outlive CUDA.
template <class Kernel, class... Bounds>
Kernel* prepared(const char* what, const AttentionShape& s, DType t, Bounds... bounds) {
  static auto& kernels = *new std::map<AttentionShape, std::unique_ptr<Kernel>>;
  if (t != DType::bf16) return nullptr;
  const auto [at, is_new] = kernels.try_emplace(s);
  if (is_new) {
    try {
      at->second = std::make_unique<Kernel>(s, bounds...);
    } catch (const cudnn::NotSupported& e) {
      log::info(
          "{} of batch {}, seq {}, heads {}, kv_heads {}, head_dim {} runs without tensor cores: cuDNN does "
          "not take it ({})",
          what, s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, e.what());
    }
  }
  return at->second.get();
}

cudnn::Attention* forward(const AttentionShape& s, DType t) {
  return prepared<cudnn::Attention>("attention", s, t);
}

cudnn::AttentionBackward* backward(const AttentionShape& s, DType t) {
  return prepared<cudnn::AttentionBackward>("attention_grad", s, t, most_scratch_bytes);
}

}  // namespace

void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions) {
  cudnn::Attention* const fused = positions == nullptr ? forward(shape, t) : nullptr;
  if (fused != nullptr) return fused->run(space, q, k, v, o, lse, scratch);
  team::attention(space, shape, t, q, k, v, o, lse, scratch, positions);
}

std::size_t attention_scratch_bytes(AttentionShape shape, DType t) {
  const cudnn::Attention* const fused = forward(shape, t);
  return std::max(team::attention_scratch_bytes(shape, t), fused != nullptr ? fused->scratch_bytes() : 0);
}

void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad) {
  cudnn::AttentionBackward* const fused = grad.positions == nullptr ? backward(shape, t) : nullptr;
  if (fused != nullptr) return fused->run(space, grad);
  team::attention_grad(space, shape, t, grad);
}

std::size_t attention_grad_scratch_bytes(AttentionShape shape, DType t) {
  const cudnn::AttentionBackward* const fused = backward(shape, t);
  return std::max(team::attention_grad_scratch_bytes(shape, t),
                  fused != nullptr ? fused->scratch_bytes() : 0);
}

}  // namespace weft::kernels::cuda
