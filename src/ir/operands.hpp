// The operands of each operation by name: where they stand among a node's inputs (In) and outputs (Out). A
// node's lists, and its line in a graph's text, are in this order. Only the last operand of a list may be
// missing.
#pragma once

#include <cstddef>

namespace weft::ir {

struct In {
  std::size_t at;
};
struct Out {
  std::size_t at;
};

namespace operand {

/// The only input or output of a node that has one: state, view, rank_slice, join, merge_sections,
/// split_sections, zeros.
namespace single {
inline constexpr In from{0};
inline constexpr Out to{0};
}  // namespace single

// These belong to the forward. Letters: x, y and h are activations; w is a weight; q, k, v and o are
// attention's; lse is the log-sum-exp of each row, and rstd the reciprocal standard deviation of each row.

namespace embedding {
inline constexpr In tokens{0}, table{1};
inline constexpr Out y{0};
}  // namespace embedding

namespace rms_norm {
inline constexpr In x{0}, w{1};
inline constexpr Out y{0}, rstd{1};
}  // namespace rms_norm

namespace add_rms_norm {
inline constexpr In x{0}, branch{1}, w{2};
inline constexpr Out sum{0}, y{1}, rstd{2};
}  // namespace add_rms_norm

namespace matmul {
inline constexpr In x{0}, w{1};
inline constexpr Out y{0};
}  // namespace matmul

namespace rope {
inline constexpr In x{0}, positions{1}, table{2};
inline constexpr Out y{0};
}  // namespace rope

namespace rope_split {
inline constexpr In qkv{0}, positions{1}, table{2};
inline constexpr Out q{0}, k{1}, v{2};
}  // namespace rope_split

namespace attention {
inline constexpr In q{0}, k{1}, v{2};
inline constexpr In positions{3};  ///< only where attention stays within documents
inline constexpr Out o{0}, lse{1};
}  // namespace attention

namespace swiglu {
inline constexpr In gate{0};  ///< where `up` is missing: gate and up, side by side
inline constexpr In up{1};
inline constexpr Out y{0};
}  // namespace swiglu

namespace add {
inline constexpr In a{0}, b{1};
inline constexpr Out sum{0};
}  // namespace add

/// Each row of `parts` is the largest logit, the sum of the exponentials above it, and the target's logit or,
/// where the target is in another part of the vocabulary, 0.
namespace cross_entropy_part {
inline constexpr In logits{0}, targets{1};
inline constexpr Out parts{0};
}  // namespace cross_entropy_part

namespace cross_entropy {
inline constexpr In logits{0}, targets{1};
inline constexpr In parts{2};  ///< of all ranks, where each has logits for a part of the vocabulary
inline constexpr Out lse{0}, totals{1};
}  // namespace cross_entropy

/// Operands of the loss alone, and of the loss with its gradients. Only the latter has dh and dw.
namespace linear_cross_entropy {
inline constexpr In h{0}, w{1}, targets{2};
inline constexpr Out totals{0}, dh{1}, dw{2};
}  // namespace linear_cross_entropy

// These belong to the backward. dx is the gradient of x; so_far is what a gradient is added to, where there
// is something.

namespace embedding_grad {
inline constexpr In tokens{0}, dy{1};
inline constexpr Out dtable{0};
}  // namespace embedding_grad

namespace rms_norm_grad {
inline constexpr In x{0}, w{1}, rstd{2}, dy{3}, so_far{4};
inline constexpr Out dx{0}, dw{1};
}  // namespace rms_norm_grad

namespace matmul_dgrad {
inline constexpr In dy{0}, w{1}, so_far{2};
inline constexpr Out dx{0};
}  // namespace matmul_dgrad

namespace matmul_wgrad {
inline constexpr In dy{0}, x{1};
inline constexpr Out dw{0};
}  // namespace matmul_wgrad

namespace rope_join {
inline constexpr In dq{0}, dk{1}, dv{2}, positions{3}, table{4};
inline constexpr Out dqkv{0};
}  // namespace rope_join

namespace attention_grad {
inline constexpr In q{0}, k{1}, v{2}, o{3}, lse{4}, dy{5};
inline constexpr In positions{6};  ///< only where attention has them, too
inline constexpr Out dq{0}, dk{1}, dv{2};
}  // namespace attention_grad

/// Operands of swiglu_grad where gate and up are two values.
namespace swiglu_grad {
inline constexpr In gate{0}, up{1}, dy{2};
inline constexpr Out dgate{0}, dup{1};
}  // namespace swiglu_grad
/// Operands of the same operation where gate and up stand side by side in one value.
namespace swiglu_grad_beside {
inline constexpr In gate_up{0}, dy{1};
inline constexpr Out dgate_up{0};
}  // namespace swiglu_grad_beside

namespace cross_entropy_grad {
inline constexpr In logits{0}, targets{1}, lse{2};
inline constexpr Out dlogits{0};
}  // namespace cross_entropy_grad

// These compute in Float8. x8, dy8 and w8 are elements over a scale, and `scale` has one for each row.

namespace amax {
inline constexpr In master{0}, so_far{1};
inline constexpr Out largest{0};
}  // namespace amax

namespace float8_scales {
inline constexpr In largest{0};
inline constexpr Out scales{0};
}  // namespace float8_scales

namespace quantize_unit {
inline constexpr In master{0}, scales{1};
inline constexpr Out unit{0};
}  // namespace quantize_unit

namespace quantize {
inline constexpr In x{0};
inline constexpr Out x8{0}, scale{1};
}  // namespace quantize

namespace matmul_f8 {
inline constexpr In x8{0}, scale{1}, w8{2}, scales{3};
inline constexpr Out y{0};
}  // namespace matmul_f8

namespace matmul_dgrad_f8 {
inline constexpr In dy8{0}, scale{1}, w8{2}, scales{3}, so_far{4};
inline constexpr Out dx{0};
}  // namespace matmul_dgrad_f8

// These belong to the update.

namespace accumulate {
inline constexpr In gradient{0}, so_far{1};
inline constexpr Out sum{0};
}  // namespace accumulate

namespace sum_squares {
inline constexpr In gradient{0}, so_far{1};
inline constexpr Out sum{0};
}  // namespace sum_squares

namespace reduce_totals {
inline constexpr In rounds{0};
inline constexpr Out totals{0};
}  // namespace reduce_totals

namespace clip_scale {
inline constexpr In squares{0}, totals{1};
inline constexpr Out scale{0};
}  // namespace clip_scale

namespace adamw {
inline constexpr In gradient{0}, master{1}, exp_avg{2}, exp_avg_sq{3}, scale{4}, step{5};
inline constexpr Out new_master{0}, new_exp_avg{1}, new_exp_avg_sq{2};
inline constexpr Out new_parameter{3};  ///< only where parameters stand beside their masters
}  // namespace adamw

/// Operands of the ends of a message between stages.
namespace send {
inline constexpr In x{0};
}  // namespace send
namespace recv {
inline constexpr Out x{0};
}  // namespace recv

/// Operands of one member of a collective (ir::member_input): what it sends, and what a reduce-scatter adds
/// to, where there is something.
namespace collective {
inline constexpr In vector{0}, so_far{1};
}  // namespace collective

}  // namespace operand
}  // namespace weft::ir
