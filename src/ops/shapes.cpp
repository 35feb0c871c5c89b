#include "ops/shapes.hpp"

#include <fmt/core.h>

#include <stdexcept>

#include "base/exact_sum.hpp"

namespace weft::ops {
namespace {

using ir::Attr;
using ir::Op;
using ir::Type;
using namespace ir::operand;

/// The shape rules of one node. Letters: B batch, T sequence, C model, N a matmul's outputs, V vocabulary.
class Rule {
 public:
  Rule(const ir::Graph& graph, Op op, std::span<const ir::ValueId> inputs, const ir::Attributes& attributes)
      : graph_(graph), op_(op), inputs_(inputs), attributes_(attributes) {}

  std::vector<Type> apply() const {
    switch (op_) {
      case Op::embedding: return embedding();
      case Op::embedding_grad: return embedding_grad();
      case Op::rms_norm: return rms_norm();
      case Op::add_rms_norm: return add_rms_norm();
      case Op::rms_norm_grad: return rms_norm_grad();
      case Op::matmul: return matmul();
      case Op::matmul_dgrad: return matmul_dgrad();
      case Op::matmul_wgrad: return matmul_wgrad();
      case Op::rope: ends_with(rope::table); return {in(rope::x)};
      case Op::rope_split: return rope_split();
      case Op::rope_join: return rope_join();
      case Op::attention: return attention();
      case Op::attention_grad:
        ends_with(attention_grad::dy, attention_grad::positions);
        same(attention_grad::dy, attention_grad::q);
        return {in(attention_grad::q), in(attention_grad::k), in(attention_grad::v)};
      case Op::merge_sections: return merge_sections();
      case Op::split_sections: return split_sections();
      case Op::swiglu: return swiglu();
      case Op::swiglu_grad: return swiglu_grad();
      case Op::add:
        ends_with(add::b);
        same(add::a, add::b);
        return {in(add::a)};
      case Op::cross_entropy_part: loss_of_logits(); return {parts_of_loss(1)};
      case Op::cross_entropy: return cross_entropy();
      case Op::cross_entropy_grad:
        ends_with(cross_entropy_grad::lse);
        return {in(cross_entropy_grad::logits)};
      case Op::linear_cross_entropy: linear_loss(); return {totals()};
      case Op::linear_cross_entropy_grad:
        linear_loss();
        return {totals(), in(linear_cross_entropy::h), in(linear_cross_entropy::w)};
      case Op::amax: ends_with(amax::so_far); return {in(amax::so_far)};
      case Op::float8_scales: ends_with(float8_scales::largest); return {in(float8_scales::largest)};
      case Op::quantize_unit:
        ends_with(quantize_unit::scales);
        return {{DType::e4m3, in(quantize_unit::master).shape}};
      case Op::quantize:
        ends_with(quantize::x);
        rank(quantize::x, 3);
        return {{attributes_.has(Attr::e5m2) ? DType::e5m2 : DType::e4m3, in(quantize::x).shape},
                one_a_row(quantize::x)};
      case Op::matmul_f8: return matmul_f8();
      case Op::matmul_dgrad_f8: return matmul_dgrad_f8();
      case Op::accumulate:
        ends_with(accumulate::gradient, accumulate::so_far);
        return {{DType::f32, in(accumulate::gradient).shape}};
      case Op::sum_squares: ends_with(sum_squares::so_far); return {in(sum_squares::so_far)};
      case Op::reduce_totals: ends_with(reduce_totals::rounds); return {totals()};
      case Op::clip_scale: ends_with(clip_scale::totals); return {{DType::f32, {4}}};
      case Op::adamw: return adamw();
      case Op::state:
      case Op::view:
      case Op::rank_slice:
      case Op::join:
      case Op::zeros:
      case Op::all_gather:
      case Op::reduce_scatter:
      case Op::all_reduce:
      case Op::send:
      case Op::recv: break;
    }
    fail("has no shape rule");
  }

 private:
  [[noreturn]] void fail(const char* problem) const {
    throw std::logic_error(fmt::format("{}: {}", name_of(op_), problem));
  }
  const Type& in(ir::In operand) const { return graph_.value(inputs_[operand.at]).type; }
  bool has(ir::In operand) const { return inputs_.size() > operand.at; }
  /// Checks the number of inputs. `last` is the last of them, but where `optional` is given, that one may
  /// follow.
  void ends_with(ir::In last) const {
    if (inputs_.size() != last.at + 1) fail("wrong number of inputs");
  }
  void ends_with(ir::In last, ir::In optional) const {
    if (!has(optional)) ends_with(last);
    if (has(optional)) ends_with(optional);
  }
  void rank(ir::In operand, std::size_t n) const {
    if (in(operand).shape.size() != n) fail("an input has the wrong number of dimensions");
  }
  void same(const Type& a, const Type& b) const {
    if (a != b) fail("inputs differ in type");
  }
  void same(ir::In a, ir::In b) const { same(in(a), in(b)); }
  void equal(std::int64_t a, std::int64_t b) const {
    if (a != b) fail("extents do not fit");
  }

  static Type totals() { return {DType::f64, {2}}; }
  /// The type of one fp32 number for each row of x [B,T,C].
  Type one_a_row(ir::In x) const { return {DType::f32, {in(x).shape[0], in(x).shape[1]}}; }
  /// The type of rows of width `width`, as many as x has.
  Type as_wide_as(ir::In x, std::int64_t width) const {
    return {in(x).dtype, {in(x).shape[0], in(x).shape[1], width}};
  }

  std::vector<Type> embedding() const {
    ends_with(embedding::table);
    rank(embedding::tokens, 2);
    rank(embedding::table, 2);
    const Type &tokens = in(embedding::tokens), &table = in(embedding::table);
    return {{table.dtype, {tokens.shape[0], tokens.shape[1], table.shape[1]}}};
  }
  std::vector<Type> embedding_grad() const {  // tokens [B,T], dy [B,T,C]
    ends_with(embedding_grad::dy);
    rank(embedding_grad::dy, 3);
    const Type& dy = in(embedding_grad::dy);
    return {{dy.dtype, {attributes_.integer(Attr::vocab), dy.shape[2]}}};
  }
  std::vector<Type> rms_norm() const {
    ends_with(rms_norm::w);
    rank(rms_norm::x, 3);
    rank(rms_norm::w, 1);
    equal(in(rms_norm::x).shape[2], in(rms_norm::w).shape[0]);
    return {in(rms_norm::x), one_a_row(rms_norm::x)};
  }
  std::vector<Type> add_rms_norm() const {
    ends_with(add_rms_norm::w);
    same(add_rms_norm::branch, add_rms_norm::x);
    rank(add_rms_norm::x, 3);
    rank(add_rms_norm::w, 1);
    equal(in(add_rms_norm::x).shape[2], in(add_rms_norm::w).shape[0]);
    return {in(add_rms_norm::x), in(add_rms_norm::x), one_a_row(add_rms_norm::x)};
  }
  std::vector<Type> rms_norm_grad() const {
    ends_with(rms_norm_grad::dy, rms_norm_grad::so_far);
    same(rms_norm_grad::dy, rms_norm_grad::x);
    if (has(rms_norm_grad::so_far)) same(rms_norm_grad::so_far, rms_norm_grad::x);
    return {in(rms_norm_grad::x), in(rms_norm_grad::w)};
  }
  std::vector<Type> matmul() const {  // x [B,T,C], w [N,C]
    ends_with(matmul::w);
    rank(matmul::x, 3);
    rank(matmul::w, 2);
    equal(in(matmul::x).shape[2], in(matmul::w).shape[1]);
    return {as_wide_as(matmul::x, in(matmul::w).shape[0])};
  }
  std::vector<Type> matmul_dgrad() const {  // dy [B,T,N], w [N,C]
    ends_with(matmul_dgrad::w, matmul_dgrad::so_far);
    rank(matmul_dgrad::dy, 3);
    rank(matmul_dgrad::w, 2);
    equal(in(matmul_dgrad::dy).shape[2], in(matmul_dgrad::w).shape[0]);
    Type dx = as_wide_as(matmul_dgrad::dy, in(matmul_dgrad::w).shape[1]);
    if (has(matmul_dgrad::so_far)) same(in(matmul_dgrad::so_far), dx);
    return {std::move(dx)};
  }
  /// Checks the rows of a product in Float8, [B,T,K], and gives its result's type, [B,T,width].
  Type product_f8(std::int64_t summed, std::int64_t width) const {
    rank(matmul_f8::x8, 3);
    rank(matmul_f8::w8, 2);
    same(in(matmul_f8::scale), one_a_row(matmul_f8::x8));
    equal(in(matmul_f8::x8).shape[2], summed);
    const Shape& x = in(matmul_f8::x8).shape;
    return {DType::bf16, {x[0], x[1], width}};
  }
  std::vector<Type> matmul_f8() const {  // x8 [B,T,C], w8 [N,C]
    ends_with(matmul_f8::scales);
    return {product_f8(in(matmul_f8::w8).shape[1], in(matmul_f8::w8).shape[0])};
  }
  std::vector<Type> matmul_dgrad_f8() const {  // dy8 [B,T,N], w8 [N,C]
    ends_with(matmul_dgrad_f8::scales, matmul_dgrad_f8::so_far);
    const Type dx = product_f8(in(matmul_dgrad_f8::w8).shape[0], in(matmul_dgrad_f8::w8).shape[1]);
    if (has(matmul_dgrad_f8::so_far)) same(in(matmul_dgrad_f8::so_far), dx);
    return {dx};
  }
  std::vector<Type> matmul_wgrad() const {  // dy [B,T,N], x [B,T,C]
    ends_with(matmul_wgrad::x);
    rank(matmul_wgrad::dy, 3);
    rank(matmul_wgrad::x, 3);
    const Type &dy = in(matmul_wgrad::dy), &x = in(matmul_wgrad::x);
    equal(dy.shape[0], x.shape[0]);
    equal(dy.shape[1], x.shape[1]);
    return {{dy.dtype, {dy.shape[2], x.shape[2]}}};
  }
  std::vector<Type> rope_split() const {
    ends_with(rope_split::table);
    rank(rope_split::qkv, 3);
    const std::int64_t d = attributes_.integer(Attr::head_dim),
                       queries = attributes_.integer(Attr::heads) * d,
                       keys = attributes_.integer(Attr::kv_heads) * d;
    equal(in(rope_split::qkv).shape[2], queries + 2 * keys);
    return {as_wide_as(rope_split::qkv, queries), as_wide_as(rope_split::qkv, keys),
            as_wide_as(rope_split::qkv, keys)};
  }
  std::vector<Type> rope_join() const {
    ends_with(rope_join::table);
    rank(rope_join::dq, 3);
    same(rope_join::dk, rope_join::dv);
    return {as_wide_as(rope_join::dq, in(rope_join::dq).shape[2] + 2 * in(rope_join::dk).shape[2])};
  }
  std::vector<Type> swiglu() const {
    rank(swiglu::gate, 3);
    const Type& gate = in(swiglu::gate);
    if (!has(swiglu::up)) {  // gate and up, side by side
      equal(gate.shape[2] % 2, 0);
      return {as_wide_as(swiglu::gate, gate.shape[2] / 2)};
    }
    ends_with(swiglu::up);
    same(swiglu::gate, swiglu::up);
    return {gate};
  }
  std::vector<Type> swiglu_grad() const {
    if (!has(swiglu_grad::dy)) {
      ends_with(swiglu_grad_beside::dy);
      equal(in(swiglu_grad_beside::gate_up).shape.back(), 2 * in(swiglu_grad_beside::dy).shape.back());
      return {in(swiglu_grad_beside::gate_up)};
    }
    ends_with(swiglu_grad::dy);
    same(swiglu_grad::gate, swiglu_grad::up);
    same(swiglu_grad::dy, swiglu_grad::gate);
    return {in(swiglu_grad::gate), in(swiglu_grad::up)};
  }
  /// How many sections of a sequence there are, two on each rank of the context axis.
  std::int64_t sections() const {
    return 2 * graph_.mesh().size(static_cast<int>(attributes_.integer(Attr::axis)));
  }
  std::vector<Type> merge_sections() const {
    ends_with(single::from);
    rank(single::from, 3);
    const Shape& x = in(single::from).shape;
    equal(x[0] % sections(), 0);
    return {{in(single::from).dtype, {x[0] / sections(), x[1] * sections(), x[2]}}};
  }
  std::vector<Type> split_sections() const {
    ends_with(single::from);
    rank(single::from, 3);
    const Shape& dy = in(single::from).shape;
    equal(dy[1] % sections(), 0);
    return {{in(single::from).dtype, {dy[0] * sections(), dy[1] / sections(), dy[2]}}};
  }
  std::vector<Type> attention() const {
    ends_with(attention::v, attention::positions);
    rank(attention::q, 3);
    same(attention::k, attention::v);
    const Type& q = in(attention::q);
    const std::int64_t heads = attributes_.integer(Attr::heads),
                       kv_heads = attributes_.integer(Attr::kv_heads);
    const Shape& k = in(attention::k).shape;
    equal(q.shape[2] * kv_heads, k[2] * heads);
    // Of a sequence that is cut over a context axis, there are queries of some sections, and all keys.
    equal(q.shape[1] * (attributes_.has(Attr::axis) ? sections() : 1), k[1]);
    return {q, {DType::f32, {q.shape[0], heads, q.shape[1]}}};
  }
  void loss_of_logits() const {  // logits [B,T,V], targets [B,T]
    rank(cross_entropy::logits, 3);
    rank(cross_entropy::targets, 2);
    equal(in(cross_entropy::logits).shape[0], in(cross_entropy::targets).shape[0]);
    equal(in(cross_entropy::logits).shape[1], in(cross_entropy::targets).shape[1]);
  }
  /// Three numbers for each row and part of the vocabulary. Parts lie one behind the other.
  Type parts_of_loss(std::int64_t parts) const {
    const Shape& targets = in(cross_entropy::targets).shape;
    return {DType::f32, {targets[0], parts * targets[1], 3}};
  }
  std::vector<Type> cross_entropy() const {
    ends_with(cross_entropy::targets, cross_entropy::parts);
    loss_of_logits();
    if (has(cross_entropy::parts)) {
      const Shape& shape = in(cross_entropy::parts).shape;
      rank(cross_entropy::parts, 3);
      same(in(cross_entropy::parts), parts_of_loss(shape[1] / in(cross_entropy::targets).shape[1]));
    }
    return {{DType::f32, in(cross_entropy::targets).shape}, totals()};
  }
  void linear_loss() const {  // h [B,T,C], w [V,C], targets [B,T]
    ends_with(linear_cross_entropy::targets);
    rank(linear_cross_entropy::h, 3);
    rank(linear_cross_entropy::w, 2);
    rank(linear_cross_entropy::targets, 2);
    const Type &h = in(linear_cross_entropy::h), &targets = in(linear_cross_entropy::targets);
    equal(h.shape[2], in(linear_cross_entropy::w).shape[1]);
    equal(h.shape[0], targets.shape[0]);
    equal(h.shape[1], targets.shape[1]);
  }
  std::vector<Type> adamw() const {
    ends_with(adamw::step);
    const std::int64_t n = element_count(in(adamw::master).shape);
    for (const ir::In vector : {adamw::gradient, adamw::exp_avg, adamw::exp_avg_sq})
      equal(element_count(in(vector).shape), n);
    return {in(adamw::master), in(adamw::exp_avg), in(adamw::exp_avg_sq)};
  }

  const ir::Graph& graph_;
  Op op_;
  std::span<const ir::ValueId> inputs_;
  const ir::Attributes& attributes_;
};

}  // namespace

BatchRule batch_rule(Op op, std::size_t output) {
  switch (op) {
    case Op::rms_norm_grad: return output == rms_norm_grad::dw.at ? BatchRule::sums : BatchRule::rows;
    case Op::cross_entropy: return output == cross_entropy::totals.at ? BatchRule::sums : BatchRule::rows;
    case Op::embedding:
    case Op::rms_norm:
    case Op::add_rms_norm:
    case Op::matmul:
    case Op::rope:
    case Op::rope_split:
    case Op::rope_join:
    case Op::attention:
    case Op::merge_sections:
    case Op::split_sections:
    case Op::swiglu:
    case Op::add:
    case Op::matmul_dgrad:
    case Op::quantize:
    case Op::matmul_f8:
    case Op::matmul_dgrad_f8:
    case Op::attention_grad:
    case Op::swiglu_grad:
    case Op::cross_entropy_part:
    case Op::cross_entropy_grad: return BatchRule::rows;
    case Op::linear_cross_entropy_grad:
      return output == linear_cross_entropy::dh.at ? BatchRule::rows : BatchRule::sums;
    case Op::linear_cross_entropy:
    case Op::embedding_grad:
    case Op::matmul_wgrad: return BatchRule::sums;
    case Op::state:
    case Op::view:
    case Op::rank_slice:
    case Op::join:
    case Op::amax:
    case Op::float8_scales:
    case Op::quantize_unit:
    case Op::zeros:
    case Op::accumulate:
    case Op::sum_squares:
    case Op::reduce_totals:
    case Op::clip_scale:
    case Op::adamw:
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::all_reduce:
    case Op::send: return BatchRule::invariant;
    case Op::recv: return BatchRule::rows;
  }
  return BatchRule::invariant;
}

bool is_parameter_gradient(Op op, std::size_t output) {
  const bool totals = output == linear_cross_entropy::totals.at &&
                      (op == Op::linear_cross_entropy || op == Op::linear_cross_entropy_grad);
  return !totals && op != Op::cross_entropy && batch_rule(op, output) == BatchRule::sums;
}

bool has_shape_rule(Op op) {
  return !ir::is_alias(op) && !ir::communicates(op) && op != Op::join && op != Op::zeros;
}

std::vector<Type> infer(const ir::Graph& graph, Op op, std::span<const ir::ValueId> inputs,
                        const ir::Attributes& attributes) {
  return Rule(graph, op, inputs, attributes).apply();
}

}  // namespace weft::ops
