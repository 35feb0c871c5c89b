#include "ops/derivatives.hpp"

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace weft::ops {
namespace {

using ir::Attr;
using ir::Op;
using ir::ValueId;

/// "layers.0.attn.q#1" -> "layers.0.attn.q.grad": the builder adds the round's suffix again.
std::string grad_name(const ir::Graph& graph, ValueId value) {
  const std::string& name = graph.value(value).name;
  return name.substr(0, name.find('#')) + ".grad";
}

std::vector<ValueId> matmul_grad(Builder& b, const ir::Node& node, ValueId dy) {
  const ValueId x = node.inputs[0], w = node.inputs[1];
  const ValueId dx = b.emit_one(Op::matmul_dgrad, node.module, {dy, w}, grad_name(b.graph(), x));
  const ValueId dw = b.emit_one(Op::matmul_wgrad, node.module, {dy, x}, grad_name(b.graph(), w));
  return {dx, dw};
}

std::vector<ValueId> embedding_grad(Builder& b, const ir::Node& node, ValueId dy) {
  const double vocab = static_cast<double>(b.graph().value(node.inputs[1]).type.shape[0]);
  const ValueId table = b.emit_one(Op::embedding_grad, node.module, {node.inputs[0], dy},
                                   grad_name(b.graph(), node.inputs[1]), {{Attr::vocab, vocab}});
  return {{}, table};
}

std::vector<ValueId> rope_grad(Builder& b, const ir::Node& node, ValueId dy) {
  ir::Attributes attributes = node.attributes;
  attributes.set(Attr::inverse, 1);
  const ValueId dx = b.emit_one(Op::rope, node.module, {dy, node.inputs[1], node.inputs[2]},
                                grad_name(b.graph(), node.inputs[0]), attributes);
  return {dx, {}, {}};
}

}  // namespace

std::vector<ValueId> differentiate(Builder& b, const ir::Node& node,
                                   std::span<const ValueId> output_gradients) {
  const std::vector<ValueId> in = node.inputs;
  const std::vector<ValueId> out = node.outputs;
  const ValueId dy = output_gradients[0];
  const auto name = [&](std::size_t i) { return grad_name(b.graph(), in[i]); };
  switch (node.op) {
    case Op::embedding: return embedding_grad(b, node, dy);
    case Op::rms_norm:
      return b.emit(Op::rms_norm_grad, node.module, {in[0], in[1], out[1], dy}, {name(0), name(1)});
    case Op::matmul: return matmul_grad(b, node, dy);
    case Op::rope: return rope_grad(b, node, dy);
    case Op::attention:
      return b.emit(Op::attention_grad, node.module, {in[0], in[1], in[2], out[0], out[1], dy},
                    {name(0), name(1), name(2)}, node.attributes);
    case Op::swiglu: return b.emit(Op::swiglu_grad, node.module, {in[0], in[1], dy}, {name(0), name(1)});
    case Op::add: return {dy, dy};
    case Op::cross_entropy:
      return {b.emit_one(Op::cross_entropy_grad, node.module, {in[0], in[1], out[0]}, name(0)), {}};
    default: throw std::logic_error(fmt::format("{} has no derivative", name_of(node.op)));
  }
}

}  // namespace weft::ops
