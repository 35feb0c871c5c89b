// The host's attention: chooses between the bf16 engine and the tiled implementation.
#include "kernels/attention_backends.hpp"
#include "kernels/bf16_engine/tiles.hpp"

namespace weft::kernels::host {

void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions) {
  if (bf16_engine::serves(t))
    return bf16_engine::attention(space, shape, q, k, v, o, lse, scratch, positions);
  tiled::attention(space, shape, t, q, k, v, o, lse, scratch, positions);
}

std::size_t attention_scratch_bytes(AttentionShape shape, DType t) {
  return bf16_engine::serves(t) ? bf16_engine::attention_scratch_bytes(shape)
                                : tiled::attention_scratch_bytes(shape);
}

void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad) {
  if (bf16_engine::serves(t)) return bf16_engine::attention_grad(space, shape, grad);
  tiled::attention_grad(space, shape, t, grad);
}

std::size_t attention_grad_scratch_bytes(AttentionShape shape, DType t) {
  return bf16_engine::serves(t) ? bf16_engine::attention_grad_scratch_bytes(shape)
                                : tiled::attention_grad_scratch_bytes(shape);
}

}  // namespace weft::kernels::host
