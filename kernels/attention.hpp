// Causal grouped-query attention that never makes a T x T matrix (FlashAttention: Dao et al., 2022; Dao,
// 2023).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// Ranks that share their sequences (context parallelism) cut each into 2c sections of T/(2c) tokens. Rank r
/// has all keys and values, and the queries of sections r and 2c-1-r: together each rank's see about as many
/// keys (Llama 3: Grattafiori et al., 2024). Its queries of a sequence are two runs, without such ranks one.
struct AttentionShape {
  std::int64_t batch;     ///< B
  std::int64_t seq;       ///< T, the keys of a sequence; a multiple of 2c where c > 1
  std::int64_t heads;     ///< H, a multiple of kv_heads
  std::int64_t kv_heads;  ///< Hkv
  std::int64_t head_dim;  ///< D, at most limits::most_head_dim
  int context = 1;        ///< c: how many ranks share a sequence
  int place = 0;          ///< r: this rank's place among them
  /// Whether the gradient has the same bits each time. On CUDA it is then slower, and needs more scratch.
  bool deterministic = true;
  auto operator<=>(const AttentionShape&) const = default;

  /// R: the runs of queries in a sequence.
  constexpr int runs() const { return context == 1 ? 1 : 2; }
  /// Tq: the queries of a run.
  constexpr std::int64_t queries() const { return seq / (context == 1 ? 1 : 2 * context); }
  /// The index in the sequence of a run's first query.
  constexpr std::int64_t first(std::int64_t run) const {
    return (run == 0 ? place : 2 * context - 1 - place) * queries();
  }
  /// How many keys of a sequence some query sees: those behind them get gradients of zero.
  constexpr std::int64_t seen() const { return first(runs() - 1) + queries(); }
};

/// o = softmax(q k^T / sqrt(D), causal) v. q, o [R, B, Tq, H, D] and k, v [B, T, Hkv, D] of type `t` (f32 or
/// bf16; std::logic_error otherwise, and for a shape out of range), on CUDA aligned to 16 bytes; head h reads
/// kv head h / (H / Hkv). lse [R, B, H, Tq]: the fp32 log-sum-exp of the scaled scores. Arithmetic is fp32;
/// where AMX or tensor cores multiply bf16, probabilities are rounded to it first. o must not overlap the
/// inputs. Bits do not depend on the number of threads.
/// With `positions` [R, B, Tq], which give each query's position in its document, a query sees only its own
/// document: with index g in its sequence, the keys from g - its position on. Positions of a sequence begin
/// with 0, and rise by one or begin again with 0.
void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* scratch, const std::int32_t* positions = nullptr);
/// The bytes of attention's scratch, the same for every place among ranks that share sequences. `documents`
/// says that attention() will be given positions.
std::size_t attention_scratch_bytes(AttentionShape shape, DType t, bool documents = false);
/// Compiles what attention() of this shape runs, where a library does so (cuDNN: half a second, on the
/// device). Without it the first call does.
void prepare_attention(AttentionShape shape, DType t, bool documents = false);

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

/// The gradients of attention(). Probabilities are computed again from lse. dk and dv are summed in fp32 over
/// the queries that there are, in an order that does not change unless shape.deterministic is false. cuDNN
/// rounds to bf16 what each head of a group, and each run of queries, adds to them.
void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& grad);
std::size_t attention_grad_scratch_bytes(AttentionShape shape, DType t, bool documents = false);
void prepare_attention_grad(AttentionShape shape, DType t, bool documents = false);

}  // namespace weft::kernels
