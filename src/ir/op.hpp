// The names of the graph's operations and of their attributes. The folder ops says what an operation means
// (shape rule, cost, derivative).
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::ir {

enum class Op : std::uint8_t {
  // These name data that stand somewhere already.
  state,       ///< () -> x           x is a storage's content
  view,        ///< (u) -> p          a parameter: u's elements from `offset` on, with p's shape
  rank_slice,  ///< (u) -> s          this rank's slice of a unit that is held whole
  join,        ///< (p...) -> u       the unit of parameters p...: written in place, the padding zeroed
  // These belong to the forward.
  embedding,
  rms_norm,
  add_rms_norm,  ///< (x, branch, w) -> sum, y, rstd: an add and the rms_norm of its result
  matmul,
  rope,
  rope_split,      ///< (qkv, positions, table) -> q, k, v: parts of one matmul's rows, q and k rotated
  attention,       ///< (q, k, v) or (q, k, v, positions) -> o, lse; with positions, within documents
  merge_sections,  ///< (x) -> y: whole sequences, of the sections that a gather over the context axis gives
  swiglu,          ///< (gate, up) -> y, or (gate and up side by side) -> y
  add,
  cross_entropy_part,    ///< (logits, targets) -> parts: of logits for a part of the vocabulary
  cross_entropy,         ///< (logits, targets) or (logits, targets, parts of all) -> lse, totals
  linear_cross_entropy,  ///< (h, w, targets) -> totals: a matmul and its result's loss, some rows at a time
  // These belong to the backward.
  embedding_grad,
  rms_norm_grad,
  matmul_dgrad,
  matmul_wgrad,
  rope_join,  ///< (dq, dk, dv, positions, table) -> dqkv
  attention_grad,
  split_sections,  ///< (dy) -> dx: the reverse of merge_sections
  swiglu_grad,
  cross_entropy_grad,
  linear_cross_entropy_grad,  ///< (h, w, targets) -> totals, dh, dw: that loss and its gradients in one pass
  // These compute in Float8. Weights, and rows of activations and their gradients, have scales of their own.
  amax,           ///< (u, so_far) -> largest: the largest magnitude of each kind of a unit's matrices
  float8_scales,  ///< (largest) -> scales
  quantize_unit,  ///< (u, scales) -> u8: the unit's elements over the scale of their matrix
  quantize,       ///< (x) -> x8, scale: each row's elements over a scale of its own
  matmul_f8,
  matmul_dgrad_f8,
  // These belong to the update.
  zeros,
  accumulate,
  sum_squares,
  reduce_totals,
  clip_scale,
  adamw,
  // These are the collectives.
  all_gather,
  reduce_scatter,
  all_reduce,
  // These are the messages between two stages of a pipe. Attr::peer is the other one's place on the pipe.
  send,  ///< (x) -> ()
  recv,  ///< () -> x
};
inline constexpr int op_count = static_cast<int>(Op::recv) + 1;

std::string_view name_of(Op op);
/// The operation of this name. Throws Error(bad_input) when there is none.
Op op_from(std::string_view name);

/// Whether the operation only names bytes, so that nothing runs for it: state, view and rank_slice.
constexpr bool is_alias(Op op) {
  return op == Op::state || op == Op::view || op == Op::rank_slice;
}
constexpr bool is_collective(Op op) {
  return op == Op::all_gather || op == Op::reduce_scatter || op == Op::all_reduce;
}
/// Whether the operation is a product of operands in Float8.
constexpr bool is_float8_product(Op op) {
  return op == Op::matmul_f8 || op == Op::matmul_dgrad_f8;
}
/// Whether the operation is one end of a message between stages.
constexpr bool is_message(Op op) {
  return op == Op::send || op == Op::recv;
}
/// Whether the operation runs on a channel, and so on a lane of its own.
constexpr bool communicates(Op op) {
  return is_collective(op) || is_message(op);
}

enum class Attr : std::uint8_t {
  any_order,  ///< sums may be added in another order each time
  axis,
  beta1,
  beta2,
  copies,
  e5m2,  ///< quantize: the format; without it e4m3
  eps,
  head_dim,
  heads,
  hold,
  inverse,
  kv_heads,
  largest,  ///< an all_reduce: takes the largest instead of the sum
  max_norm,
  native,
  offset,
  peer,
  row,
  rows,
  slot,  ///< the place of a scale among those of all weights
  team,
  tensorwise,  ///< in Float8: all rows of a rank have one scale; without it each has its own
  used,
  vocab
};
std::string_view name_of(Attr attr);
Attr attr_from(std::string_view name);

/// A small sorted list of numbers by name. Integers are exact up to 2^53.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<Attr, double>> list);
  bool has(Attr attr) const;
  double real(Attr attr) const;           ///< throws std::logic_error when absent
  std::int64_t integer(Attr attr) const;  ///< throws std::logic_error when absent, and when it is beyond 2^53
  void set(Attr attr, double value);
  const std::vector<std::pair<Attr, double>>& list() const { return list_; }
  bool operator==(const Attributes&) const = default;

 private:
  std::vector<std::pair<Attr, double>> list_;
};

}  // namespace weft::ir
