#include "kernels/attention.hpp"

#include <fmt/core.h>

#include <stdexcept>

#include "base/device.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "kernels/attention_backends.hpp"

namespace weft::kernels {

// cuDNN has no kernel for attention within documents.
#if defined(WEFT_CUDNN)
namespace backend = cuda;
namespace documents_backend = team;
#elif defined(WEFT_CUDA) || defined(WEFT_HIP)
namespace backend = team;
namespace documents_backend = team;
#else
namespace backend = host;
namespace documents_backend = host;
#endif

namespace {

void check(const AttentionShape& s) {
  const bool sizes = s.batch > 0 && s.seq > 0 && s.head_dim > 0 && s.head_dim <= limits::most_head_dim;
  const bool groups = s.kv_heads > 0 && s.heads > 0 && s.heads % s.kv_heads == 0;
  const bool sections = s.context == 1 || (s.context > 1 && s.seq % (2 * s.context) == 0);
  const bool place = s.place >= 0 && s.place < s.context;
  if (!sizes || !groups || !sections || !place)
    throw std::logic_error(fmt::format(
        "attention: no kernel for batch {}, seq {}, heads {}, kv_heads {}, head_dim {}, place {} of {}",
        s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, s.place, s.context));
}

/// Back ends that compile nothing have nothing to prepare.
[[maybe_unused]] void prepare_nothing(AttentionShape, DType) {}

#if defined(WEFT_CUDNN)
constexpr auto prepare = cuda::prepare_attention;
constexpr auto prepare_grad = cuda::prepare_attention_grad;
#else
constexpr auto prepare = prepare_nothing;
constexpr auto prepare_grad = prepare_nothing;
#endif

void warn_of_documents() {
  static const bool told = [] {
    log::warn_for_all(
        "attention within documents runs without tensor cores on a GPU, which takes many times as long; "
        "with data.document_mask = false cuDNN computes it where it can");
    return true;
  }();
  static_cast<void>(told);
}

}  // namespace

void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions) {
  check(shape);
  if (positions != nullptr)
    return documents_backend::attention(space, shape, t, q, k, v, o, lse, scratch, positions);
  backend::attention(space, shape, t, q, k, v, o, lse, scratch, positions);
}

std::size_t attention_scratch_bytes(AttentionShape shape, DType t, bool documents) {
  if (documents && t == DType::bf16 && !device_is_host()) warn_of_documents();
  return documents ? documents_backend::attention_scratch_bytes(shape, t)
                   : backend::attention_scratch_bytes(shape, t);
}

void prepare_attention(AttentionShape shape, DType t, bool documents) {
  check(shape);
  if (!documents) prepare(shape, t);
}

void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad) {
  check(shape);
  if (grad.positions != nullptr) return documents_backend::attention_grad(space, shape, t, grad);
  backend::attention_grad(space, shape, t, grad);
}

std::size_t attention_grad_scratch_bytes(AttentionShape shape, DType t, bool documents) {
  return documents ? documents_backend::attention_grad_scratch_bytes(shape, t)
                   : backend::attention_grad_scratch_bytes(shape, t);
}

void prepare_attention_grad(AttentionShape shape, DType t, bool documents) {
  check(shape);
  if (!documents) prepare_grad(shape, t);
}

}  // namespace weft::kernels
