// Internal: the two implementations of attention.hpp. `tiled` is the host's; `team` runs on every Kokkos back
// end.
#pragma once

#include "kernels/attention.hpp"

namespace weft::kernels {

namespace tiled {
void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse);
void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad);
std::size_t attention_grad_scratch_bytes(AttentionShape shape);
}  // namespace tiled

namespace team {
void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse);
void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad);
std::size_t attention_grad_scratch_bytes(AttentionShape shape);
}  // namespace team

}  // namespace weft::kernels
