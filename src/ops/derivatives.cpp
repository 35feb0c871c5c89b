#include "ops/derivatives.hpp"

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace weft::ops {
namespace {

using ir::Attr;
using ir::Op;
using ir::ValueId;

/// The name of a gradient: "layers.0.attn.q#1" gives "layers.0.attn.q.grad", because the builder adds the
/// round's suffix again.
std::string grad_name(const ir::Graph& graph, ValueId value) {
  const std::string& name = graph.value(value).name;
  return name.substr(0, name.find('#')) + ".grad";
}

/// The gradients of a node's inputs, each added to what the input has so far.
class Gradients {
 public:
  Gradients(Builder& b, const ir::Node& node, std::span<const ValueId> output_gradients,
            std::span<const ValueId> so_far)
      : b_(b),
        node_(node),
        dys_(output_gradients.begin(), output_gradients.end()),
        dy_(dys_[0]),
        so_far_(so_far.begin(), so_far.end()) {}

  std::vector<ValueId> of_inputs() {
    const std::vector<ValueId>& in = node_.inputs;
    const std::vector<ValueId>& out = node_.outputs;
    switch (node_.op) {
      case Op::embedding: return {{}, added(1, embedding_table())};
      case Op::rms_norm: return rms_norm();
      case Op::matmul: return matmul();
      case Op::rope: return {added(0, rope()), {}, {}};
      case Op::rope_split: {
        const ValueId joined =
            b_.emit_one(Op::rope_join, node_.module, {dys_[0], dys_[1], dys_[2], in[1], in[2]}, name(0),
                        node_.attributes);
        return {added(0, joined), {}, {}};
      }
      case Op::attention: return attention();
      case Op::swiglu: return all_added(swiglu());
      case Op::add: return all_added({dy_, dy_});
      case Op::cross_entropy:
        return {added(0, b_.emit_one(Op::cross_entropy_grad, node_.module, {in[0], in[1], out[0]}, name(0))),
                {}};
      default: throw std::logic_error(fmt::format("{} has no derivative", name_of(node_.op)));
    }
  }

 private:
  std::string name(std::size_t input) const { return grad_name(b_.graph(), node_.inputs[input]); }

  ValueId added(std::size_t input, ValueId gradient) {
    if (so_far_[input].valid())
      gradient = b_.emit_one(Op::add, node_.module, {so_far_[input], gradient}, name(input));
    for (std::size_t i = input + 1; i < so_far_.size(); ++i)  // the node may read a value twice
      if (node_.inputs[i] == node_.inputs[input]) so_far_[i] = gradient;
    return gradient;
  }
  std::vector<ValueId> all_added(std::vector<ValueId> gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = added(i, gradients[i]);
    return gradients;
  }
  /// The operands of an operation that adds to input 0's gradient itself, which saves one rounding and one
  /// pass over memory.
  std::vector<ValueId> with_sum(std::vector<ValueId> operands) {
    if (so_far_[0].valid()) operands.push_back(std::exchange(so_far_[0], ValueId{}));
    return operands;
  }

  std::vector<ValueId> rms_norm() {
    const ValueId x = node_.inputs[0], w = node_.inputs[1], rstd = node_.outputs[1];
    std::vector<ValueId> gradients =
        b_.emit(Op::rms_norm_grad, node_.module, with_sum({x, w, rstd, dy_}), {name(0), name(1)});
    return all_added(std::move(gradients));
  }
  std::vector<ValueId> matmul() {
    const ValueId x = node_.inputs[0], w = node_.inputs[1];
    const ValueId dx = b_.emit_one(Op::matmul_dgrad, node_.module, with_sum({dy_, w}), name(0));
    return all_added({dx, b_.emit_one(Op::matmul_wgrad, node_.module, {dy_, x}, name(1))});
  }
  std::vector<ValueId> attention() {
    const std::vector<ValueId>&in = node_.inputs, &out = node_.outputs;
    std::vector<ValueId> operands{in[0], in[1], in[2], out[0], out[1], dy_};
    if (in.size() > 3) operands.push_back(in[3]);
    std::vector<ValueId> gradients = all_added(
        b_.emit(Op::attention_grad, node_.module, operands, {name(0), name(1), name(2)}, node_.attributes));
    gradients.resize(in.size());
    return gradients;
  }
  std::vector<ValueId> swiglu() {
    std::vector<ValueId> operands = node_.inputs;
    operands.push_back(dy_);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) names.push_back(name(i));
    return b_.emit(Op::swiglu_grad, node_.module, operands, names);
  }
  ValueId embedding_table() {
    const double vocab = static_cast<double>(b_.graph().value(node_.inputs[1]).type.shape[0]);
    return b_.emit_one(Op::embedding_grad, node_.module, {node_.inputs[0], dy_}, name(1),
                       {{Attr::vocab, vocab}});
  }
  ValueId rope() {
    ir::Attributes attributes = node_.attributes;
    attributes.set(Attr::inverse, 1);
    return b_.emit_one(Op::rope, node_.module, {dy_, node_.inputs[1], node_.inputs[2]}, name(0), attributes);
  }

  Builder& b_;
  ir::Node node_;  // a copy, because emitting moves the graph's nodes
  std::vector<ValueId> dys_;
  ValueId dy_;  ///< gradient of the first output
  std::vector<ValueId> so_far_;
};

}  // namespace

std::vector<ValueId> differentiate(Builder& b, const ir::Node& node,
                                   std::span<const ValueId> output_gradients,
                                   std::span<const ValueId> so_far) {
  return Gradients(b, node, output_gradients, so_far).of_inputs();
}

}  // namespace weft::ops
