// Internal: the implementations of attention.hpp. `host` takes `bf16_engine` where there is an engine for it
// (bf16_engine/tiles.hpp), else `tiled`. `cuda`, which is built where there is cuDNN, takes that
// (attention_cudnn.hpp), else `team`, which runs on every Kokkos back end and serves documents there.
#pragma once

#include "kernels/attention.hpp"

namespace weft::kernels {

namespace host {
void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions);
std::size_t attention_scratch_bytes(AttentionShape shape, DType t);
void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad);
std::size_t attention_grad_scratch_bytes(AttentionShape shape, DType t);
}  // namespace host

namespace cuda {
void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions);
std::size_t attention_scratch_bytes(AttentionShape shape, DType t);
void prepare_attention(AttentionShape shape, DType t);
void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad);
std::size_t attention_grad_scratch_bytes(AttentionShape shape, DType t);
void prepare_attention_grad(AttentionShape shape, DType t);
}  // namespace cuda

/// Here all operands are bf16, and scratch is 64-byte aligned.
namespace bf16_engine {
void attention(Space& space, AttentionShape shape, const void* q, const void* k, const void* v, void* o,
               float* lse, void* scratch, const std::int32_t* positions);
std::size_t attention_scratch_bytes(AttentionShape shape);
void attention_grad(Space& space, AttentionShape shape, const AttentionGrad& grad);
std::size_t attention_grad_scratch_bytes(AttentionShape shape);
}  // namespace bf16_engine

namespace tiled {
void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions);
std::size_t attention_scratch_bytes(AttentionShape shape);
void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad);
std::size_t attention_grad_scratch_bytes(AttentionShape shape);
}  // namespace tiled

namespace team {
void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions);
std::size_t attention_scratch_bytes(AttentionShape shape, DType t);
void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad);
std::size_t attention_grad_scratch_bytes(AttentionShape shape, DType t);
}  // namespace team

}  // namespace weft::kernels
