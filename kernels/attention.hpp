// Causal grouped-query attention that never makes a T x T matrix (FlashAttention: Dao et al., 2022; Dao,
// 2023).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

struct AttentionShape {
  std::int64_t batch;     ///< B
  std::int64_t seq;       ///< T
  std::int64_t heads;     ///< H, a multiple of kv_heads
  std::int64_t kv_heads;  ///< Hkv
  std::int64_t head_dim;  ///< D, at most limits::most_head_dim
  auto operator<=>(const AttentionShape&) const = default;
};

/// o = softmax(q k^T / sqrt(D), causal) v. q, o [B, T, H, D] and k, v [B, T, Hkv, D] of type `t` (f32 or
/// bf16; std::logic_error otherwise, and for a head_dim or a head count out of range), on CUDA aligned to 16
/// bytes; head h reads kv head h / (H / Hkv). lse [B, H, T]: the fp32 log-sum-exp of the scaled scores.
/// Arithmetic is fp32; where AMX or tensor cores multiply bf16, probabilities are rounded to it first. o must
/// not overlap the inputs. Bits do not depend on the number of threads.
/// With `positions` [B, T], which give each token's position in its document, a query sees only its own
/// document: the keys from query - positions[query] on. Positions begin with 0, and rise by one or begin
/// again with 0.
void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions = nullptr);
/// The bytes of attention's scratch. Where a library compiles for the shape (cuDNN: half a second, on the
/// device), this prepares it, too. `documents` says that attention() will be given positions.
std::size_t attention_scratch_bytes(AttentionShape shape, DType t, bool documents = false);

/// The operands of attention_grad: those of the forward, do_ with o's layout, and the gradients, which are
/// written and overlap nothing.
struct AttentionGrad {
  const void* q;
  const void* k;
  const void* v;
  const void* o;
  const float* lse;
  const void* do_;
  void* dq;
  void* dk;
  void* dv;
  void* scratch;                            ///< attention_grad_scratch_bytes(shape, t)
  const std::int32_t* positions = nullptr;  ///< what the forward was given
};

/// The gradients of attention(). Probabilities are computed again from lse. dk and dv are summed in fp32, in
/// an order that does not change, so the result is deterministic. cuDNN rounds to bf16 what each head of a
/// group adds to them.
void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad);
std::size_t attention_grad_scratch_bytes(AttentionShape shape, DType t, bool documents = false);

}  // namespace weft::kernels
