#include "ops/derivatives.hpp"

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace weft::ops {
namespace {

using ir::Attr;
using ir::In;
using ir::Op;
using ir::Out;
using ir::ValueId;
using namespace ir::operand;

/// The name of a gradient: "layers.0.attn.q#1" gives "layers.0.attn.q.grad", because the builder adds the
/// round's suffix again.
std::string grad_name(const ir::Graph& graph, ValueId value) {
  return stem(graph.value(value).name) + ".grad";
}

/// The gradients of a node's inputs, each added to what the input has so far.
class Gradients {
 public:
  Gradients(Builder& b, const ir::Node& node, std::span<const ValueId> output_gradients,
            std::span<const ValueId> so_far)
      : b_(b),
        node_(node),
        dys_(output_gradients.begin(), output_gradients.end()),
        so_far_(so_far.begin(), so_far.end()) {}

  std::vector<ValueId> of_inputs() {
    switch (node_.op) {
      case Op::embedding: return {{}, added(embedding::table, embedding_table())};
      case Op::rms_norm: return rms_norm();
      case Op::matmul: return matmul();
      case Op::matmul_dgrad: return matmul_in_first();
      case Op::rope: return {added(rope::x, rope()), {}, {}};
      case Op::rope_split: return {added(rope_split::qkv, rope_join()), {}, {}};
      case Op::attention: return attention();
      case Op::swiglu: return all_added(swiglu());
      case Op::add: return all_added({dy(add::sum), dy(add::sum)});
      case Op::cross_entropy: return {added(cross_entropy::logits, cross_entropy()), {}, {}};
      // The input of an all-gather is one part of its result. Every rank has a term of that part's gradient:
      // a reduce-scatter adds them up. The derivative of a reduce-scatter is the reverse.
      case Op::all_gather: return {added(single::from, over_axis(Op::reduce_scatter))};
      case Op::reduce_scatter: return {added(single::from, over_axis(Op::all_gather))};
      case Op::merge_sections: return {added(single::from, split_sections())};
      // The stage that got the value sends its gradient back.
      case Op::send:
        return {added(send::x, b_.recv(node_.module, type(send::x), name(send::x), peer(), back()))};
      case Op::recv: b_.send(node_.module, dy(recv::x), peer(), back()); return {};
      default: throw std::logic_error(fmt::format("{} has no derivative", name_of(node_.op)));
    }
  }

 private:
  /// The gradient of an output.
  ValueId dy(Out output) const { return dys_[output.at]; }
  std::string name(In input) const { return grad_name(b_.graph(), node_.in(input)); }
  const ir::Type& type(In input) const { return b_.graph().value(node_.in(input)).type; }
  int peer() const { return static_cast<int>(node_.attributes.integer(Attr::peer)); }
  /// The lane to or from the same neighbour, in the other direction.
  Lane back() const {
    switch (node_.lane) {
      case Lane::to_next: return Lane::from_next;
      case Lane::to_previous: return Lane::from_previous;
      case Lane::from_next: return Lane::to_next;
      case Lane::from_previous: return Lane::to_previous;
      default: throw std::logic_error(fmt::format("a message on the lane {}", name_of(node_.lane)));
    }
  }

  ValueId added(In input, ValueId gradient) {
    ValueId& so_far = so_far_[input.at];
    if (so_far.valid()) gradient = b_.emit_one(Op::add, node_.module, {so_far, gradient}, name(input));
    for (std::size_t i = input.at + 1; i < so_far_.size(); ++i)  // the node may read a value twice
      if (node_.inputs[i] == node_.in(input)) so_far_[i] = gradient;
    return gradient;
  }
  /// Adds `gradients`, which are those of the first inputs in their order.
  std::vector<ValueId> all_added(std::vector<ValueId> gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = added(In{i}, gradients[i]);
    return gradients;
  }
  /// The operands of an operation that adds to the input's gradient itself, which saves one rounding and one
  /// pass over memory.
  std::vector<ValueId> with_sum(In input, std::vector<ValueId> operands) {
    if (so_far_[input.at].valid()) operands.push_back(std::exchange(so_far_[input.at], ValueId{}));
    return operands;
  }

  /// The gradient of what a collective between activations reads.
  ValueId over_axis(Op op) {
    const auto axis = static_cast<int>(node_.attributes.integer(Attr::axis));
    return b_.over_axis(op, {axis, node_.lane}, node_.module, dy(single::to), type(single::from),
                        name(single::from));
  }
  ValueId split_sections() {
    return b_.emit_one(Op::split_sections, node_.module, {dy(single::to)}, name(single::from),
                       node_.attributes);
  }
  std::vector<ValueId> rms_norm() {
    const ValueId x = node_.in(rms_norm::x), w = node_.in(rms_norm::w), rstd = node_.out(rms_norm::rstd);
    return all_added(b_.emit(Op::rms_norm_grad, node_.module,
                             with_sum(rms_norm::x, {x, w, rstd, dy(rms_norm::y)}),
                             {name(rms_norm::x), name(rms_norm::w)}));
  }
  std::vector<ValueId> matmul() {
    const ValueId x = node_.in(matmul::x), w = node_.in(matmul::w), dy = this->dy(matmul::y);
    const ValueId dx =
        b_.emit_one(Op::matmul_dgrad, node_.module, with_sum(matmul::x, {dy, w}), name(matmul::x));
    return all_added({dx, b_.emit_one(Op::matmul_wgrad, node_.module, {dy, x}, name(matmul::w))});
  }
  /// The derivative of x w, w [in, out].
  std::vector<ValueId> matmul_in_first() {
    const ValueId x = node_.in(matmul_dgrad::dy), w = node_.in(matmul_dgrad::w),
                  dy = this->dy(matmul_dgrad::dx);
    const ValueId dx = b_.emit_one(Op::matmul, node_.module, {dy, w}, name(matmul_dgrad::dy));
    return all_added({dx, b_.emit_one(Op::matmul_wgrad, node_.module, {x, dy}, name(matmul_dgrad::w))});
  }
  std::vector<ValueId> attention() {
    std::vector<ValueId> operands{node_.in(attention::q),  node_.in(attention::k),    node_.in(attention::v),
                                  node_.out(attention::o), node_.out(attention::lse), dy(attention::o)};
    if (node_.has(attention::positions)) operands.push_back(node_.in(attention::positions));
    std::vector<ValueId> gradients =
        all_added(b_.emit(Op::attention_grad, node_.module, operands,
                          {name(attention::q), name(attention::k), name(attention::v)}, node_.attributes));
    gradients.resize(node_.inputs.size());
    return gradients;
  }
  std::vector<ValueId> swiglu() {
    std::vector<ValueId> operands = node_.inputs;  // gate and up, apart or side by side
    operands.push_back(dy(swiglu::y));
    std::vector<std::string> names{name(swiglu::gate)};
    if (node_.has(swiglu::up)) names.push_back(name(swiglu::up));
    return b_.emit(Op::swiglu_grad, node_.module, operands, names);
  }
  ValueId embedding_table() {
    const auto vocab = static_cast<double>(b_.graph().value(node_.in(embedding::table)).type.shape[0]);
    ir::Attributes attributes = node_.attributes;
    attributes.set(Attr::vocab, vocab);
    return b_.emit_one(Op::embedding_grad, node_.module, {node_.in(embedding::tokens), dy(embedding::y)},
                       name(embedding::table), attributes);
  }
  ValueId rope() {
    ir::Attributes attributes = node_.attributes;
    attributes.set(Attr::inverse, 1);
    return b_.emit_one(Op::rope, node_.module,
                       {dy(rope::y), node_.in(rope::positions), node_.in(rope::table)}, name(rope::x),
                       attributes);
  }
  ValueId rope_join() {
    return b_.emit_one(Op::rope_join, node_.module,
                       {dy(rope_split::q), dy(rope_split::k), dy(rope_split::v),
                        node_.in(rope_split::positions), node_.in(rope_split::table)},
                       name(rope_split::qkv), node_.attributes);
  }
  ValueId cross_entropy() {
    return b_.emit_one(
        Op::cross_entropy_grad, node_.module,
        {node_.in(cross_entropy::logits), node_.in(cross_entropy::targets), node_.out(cross_entropy::lse)},
        name(cross_entropy::logits), node_.attributes);
  }

  Builder& b_;
  ir::Node node_;             // a copy, because emitting moves the graph's nodes
  std::vector<ValueId> dys_;  ///< gradients of the outputs
  std::vector<ValueId> so_far_;
};

}  // namespace

std::vector<ValueId> differentiate(Builder& b, const ir::Node& node,
                                   std::span<const ValueId> output_gradients,
                                   std::span<const ValueId> so_far) {
  return Gradients(b, node, output_gradients, so_far).of_inputs();
}

}  // namespace weft::ops
