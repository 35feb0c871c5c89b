#include "ops/shapes.hpp"

#include <fmt/core.h>

#include <stdexcept>

#include "base/exact_sum.hpp"

namespace weft::ops {
namespace {

using ir::Attr;
using ir::Op;
using ir::Type;

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
      case Op::rope: count(3); return {in(0)};
      case Op::rope_split: return rope_split();
      case Op::rope_join: return rope_join();
      case Op::attention: return attention();
      case Op::attention_grad:
        if (inputs_.size() != 7) count(6);
        same(in(5), in(0));
        return {in(0), in(1), in(2)};
      case Op::swiglu: return swiglu();
      case Op::swiglu_grad: return swiglu_grad();
      case Op::add:
        count(2);
        same(in(0), in(1));
        return {in(0)};
      case Op::cross_entropy: return cross_entropy();
      case Op::cross_entropy_grad: count(3); return {in(0)};
      case Op::linear_cross_entropy: linear_loss(); return {{DType::f64, {2}}};
      case Op::linear_cross_entropy_grad: linear_loss(); return {{DType::f64, {2}}, in(0), in(1)};
      case Op::zeros: count(0); return {{DType::i64, {exact_limbs}}};
      case Op::accumulate: return {{DType::f32, in(0).shape}};
      case Op::sum_squares: count(2); return {in(1)};
      case Op::reduce_totals: count(1); return {{DType::f64, {2}}};
      case Op::clip_scale: count(2); return {{DType::f32, {4}}};
      case Op::adamw: return adamw();
      case Op::state:
      case Op::view:
      case Op::rank_slice:
      case Op::join:
      case Op::all_gather:
      case Op::reduce_scatter:
      case Op::all_reduce: break;
    }
    fail("has no shape rule");
  }

 private:
  [[noreturn]] void fail(const char* problem) const {
    throw std::logic_error(fmt::format("{}: {}", name_of(op_), problem));
  }
  const Type& in(std::size_t i) const { return graph_.value(inputs_[i]).type; }
  void count(std::size_t n) const {
    if (inputs_.size() != n) fail("wrong number of inputs");
  }
  void rank(std::size_t i, std::size_t n) const {
    if (in(i).shape.size() != n) fail("an input has the wrong number of dimensions");
  }
  void same(const Type& a, const Type& b) const {
    if (a != b) fail("inputs differ in type");
  }
  void equal(std::int64_t a, std::int64_t b) const {
    if (a != b) fail("extents do not fit");
  }

  std::vector<Type> embedding() const {
    count(2);
    rank(0, 2);
    rank(1, 2);
    return {{in(1).dtype, {in(0).shape[0], in(0).shape[1], in(1).shape[1]}}};
  }
  std::vector<Type> embedding_grad() const {  // tokens[B,T], dx[B,T,C]
    count(2);
    rank(1, 3);
    return {{in(1).dtype, {attributes_.integer(Attr::vocab), in(1).shape[2]}}};
  }
  std::vector<Type> rms_norm() const {
    count(2);
    rank(0, 3);
    rank(1, 1);
    equal(in(0).shape[2], in(1).shape[0]);
    return {in(0), {DType::f32, {in(0).shape[0], in(0).shape[1]}}};
  }
  std::vector<Type> add_rms_norm() const {
    count(3);
    same(in(1), in(0));
    rank(0, 3);
    rank(2, 1);
    equal(in(0).shape[2], in(2).shape[0]);
    return {in(0), in(0), {DType::f32, {in(0).shape[0], in(0).shape[1]}}};
  }
  std::vector<Type> rms_norm_grad() const {  // x, w, rstd, dy and, optionally, what dx is added to
    if (inputs_.size() != 5) count(4);
    for (std::size_t i = 3; i < inputs_.size(); ++i) same(in(i), in(0));
    return {in(0), in(1)};
  }
  std::vector<Type> matmul() const {
    count(2);
    rank(0, 3);
    rank(1, 2);
    equal(in(0).shape[2], in(1).shape[1]);
    return {{in(0).dtype, {in(0).shape[0], in(0).shape[1], in(1).shape[0]}}};
  }
  std::vector<Type> matmul_dgrad() const {  // dy[B,T,N], w[N,C] and, optionally, what dx is added to
    if (inputs_.size() != 3) count(2);
    rank(0, 3);
    rank(1, 2);
    equal(in(0).shape[2], in(1).shape[0]);
    Type dx{in(0).dtype, {in(0).shape[0], in(0).shape[1], in(1).shape[1]}};
    if (inputs_.size() == 3) same(in(2), dx);
    return {std::move(dx)};
  }
  std::vector<Type> matmul_wgrad() const {  // dy[B,T,N], x[B,T,C]
    count(2);
    rank(0, 3);
    rank(1, 3);
    equal(in(0).shape[0], in(1).shape[0]);
    equal(in(0).shape[1], in(1).shape[1]);
    return {{in(0).dtype, {in(0).shape[2], in(1).shape[2]}}};
  }
  /// Rows of width `width`, as many as input 0 has.
  Type as_wide_as(std::int64_t width) const { return {in(0).dtype, {in(0).shape[0], in(0).shape[1], width}}; }
  std::vector<Type> rope_split() const {
    count(3);
    rank(0, 3);
    const std::int64_t d = attributes_.integer(Attr::head_dim),
                       queries = attributes_.integer(Attr::heads) * d,
                       keys = attributes_.integer(Attr::kv_heads) * d;
    equal(in(0).shape[2], queries + 2 * keys);
    return {as_wide_as(queries), as_wide_as(keys), as_wide_as(keys)};
  }
  std::vector<Type> rope_join() const {
    count(5);
    rank(0, 3);
    same(in(1), in(2));
    return {as_wide_as(in(0).shape[2] + 2 * in(1).shape[2])};
  }
  std::vector<Type> swiglu() const {
    rank(0, 3);
    if (inputs_.size() == 1) {
      equal(in(0).shape[2] % 2, 0);
      return {as_wide_as(in(0).shape[2] / 2)};
    }
    count(2);
    same(in(0), in(1));
    return {in(0)};
  }
  std::vector<Type> swiglu_grad() const {  // what the forward read, and dy
    if (inputs_.size() == 2) {
      equal(in(0).shape.back(), 2 * in(1).shape.back());
      return {in(0)};
    }
    count(3);
    same(in(0), in(1));
    same(in(2), in(0));
    return {in(0), in(1)};
  }
  std::vector<Type> attention() const {  // q, k, v and, where documents are apart, positions
    if (inputs_.size() != 4) count(3);
    rank(0, 3);
    same(in(1), in(2));
    const std::int64_t heads = attributes_.integer(Attr::heads),
                       kv_heads = attributes_.integer(Attr::kv_heads);
    equal(in(0).shape[2] * kv_heads, in(1).shape[2] * heads);
    return {in(0), {DType::f32, {in(0).shape[0], heads, in(0).shape[1]}}};
  }
  std::vector<Type> cross_entropy() const {  // logits[B,T,V], targets[B,T]
    count(2);
    rank(0, 3);
    rank(1, 2);
    return {{DType::f32, in(1).shape}, {DType::f64, {2}}};
  }
  void linear_loss() const {  // h[B,T,C], w[V,C], targets[B,T]
    count(3);
    rank(0, 3);
    rank(1, 2);
    rank(2, 2);
    equal(in(0).shape[2], in(1).shape[1]);
    equal(in(0).shape[0], in(2).shape[0]);
    equal(in(0).shape[1], in(2).shape[1]);
  }
  std::vector<Type> adamw() const {  // gradient, master, exp_avg, exp_avg_sq, scale, step
    count(6);
    for (std::size_t i = 0; i < 4; ++i) equal(element_count(in(i).shape), element_count(in(1).shape));
    return {in(1), in(2), in(3)};
  }

  const ir::Graph& graph_;
  Op op_;
  std::span<const ir::ValueId> inputs_;
  const ir::Attributes& attributes_;
};

}  // namespace

BatchRule batch_rule(Op op, std::size_t output) {
  switch (op) {
    case Op::rms_norm_grad:  // dx, dw
    case Op::cross_entropy:  // log-sum-exp, totals
      return output == 1 ? BatchRule::sums : BatchRule::rows;
    case Op::embedding:
    case Op::rms_norm:
    case Op::add_rms_norm:
    case Op::matmul:
    case Op::rope:
    case Op::rope_split:
    case Op::rope_join:
    case Op::attention:
    case Op::swiglu:
    case Op::add:
    case Op::matmul_dgrad:
    case Op::attention_grad:
    case Op::swiglu_grad:
    case Op::cross_entropy_grad: return BatchRule::rows;
    case Op::linear_cross_entropy_grad:  // totals, dh, dw
      return output == 1 ? BatchRule::rows : BatchRule::sums;
    case Op::linear_cross_entropy:
    case Op::embedding_grad:
    case Op::matmul_wgrad: return BatchRule::sums;
    case Op::state:
    case Op::view:
    case Op::rank_slice:
    case Op::join:
    case Op::zeros:
    case Op::accumulate:
    case Op::sum_squares:
    case Op::reduce_totals:
    case Op::clip_scale:
    case Op::adamw:
    case Op::all_gather:
    case Op::reduce_scatter:
    case Op::all_reduce: return BatchRule::invariant;
  }
  return BatchRule::invariant;
}

bool is_parameter_gradient(Op op, std::size_t output) {
  const bool totals = output == 0 && (op == Op::linear_cross_entropy || op == Op::linear_cross_entropy_grad);
  return !totals && op != Op::cross_entropy && batch_rule(op, output) == BatchRule::sums;
}

bool has_shape_rule(Op op) {
  return !ir::is_alias(op) && !ir::is_collective(op) && op != Op::join;
}

std::vector<Type> infer(const ir::Graph& graph, Op op, std::span<const ir::ValueId> inputs,
                        const ir::Attributes& attributes) {
  return Rule(graph, op, inputs, attributes).apply();
}

}  // namespace weft::ops
