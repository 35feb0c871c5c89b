#include "exec/matmuls.hpp"

namespace weft::exec {

kernels::MatmulSpec matmul_spec(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId a = node.inputs[0], b = node.inputs[1], c = node.outputs[0];
  const std::int64_t a_last = graph.value(a).type.shape.back();
  kernels::MatmulSpec spec{};
  spec.rows = graph.local_elements(a) / a_last;
  spec.type = graph.value(a).type.dtype;
  spec.result = graph.value(c).type.dtype;
  switch (node.op) {
    case ir::Op::matmul_dgrad:
      spec.form = kernels::MatmulForm::dgrad;
      spec.out = a_last;
      spec.in = graph.value(b).type.shape[1];
      spec.add = node.inputs.size() > 2;
      break;
    case ir::Op::matmul_wgrad:
      spec.form = kernels::MatmulForm::wgrad;
      spec.out = a_last;
      spec.in = graph.value(b).type.shape.back();
      break;
    default:
      spec.form = kernels::MatmulForm::forward;
      spec.in = a_last;
      spec.out = graph.value(b).type.shape[0];
      break;
  }
  return spec;
}

kernels::LinearCrossEntropySpec linear_loss_spec(const ir::Graph& graph, const ir::Node& node) {
  const ir::Type& h = graph.value(node.inputs[0]).type;
  const ir::Type& w = graph.value(node.inputs[1]).type;
  kernels::LinearCrossEntropySpec spec{};
  spec.in = w.shape[1];
  spec.vocab = w.shape[0];
  spec.rows = graph.local_elements(node.inputs[0]) / spec.in;
  spec.chunk = node.attributes.integer(ir::Attr::rows);
  spec.type = h.dtype;
  spec.dw_type = node.outputs.size() > 2 ? graph.value(node.outputs[2]).type.dtype : w.dtype;
  return spec;
}

kernels::LinearCrossEntropy& Matmuls::get(kernels::LinearCrossEntropySpec spec) {
  spec.f32_products = f32_products_;
  auto& loss = losses_[spec];
  if (!loss) loss = std::make_unique<kernels::LinearCrossEntropy>(spec);
  return *loss;
}

kernels::Matmul& Matmuls::get(kernels::MatmulSpec s) {
  s.f32_products = f32_products_;
  auto& matmul = by_spec_[Key{static_cast<int>(s.form), s.rows, s.in, s.out, s.type, s.result, s.add}];
  if (!matmul) matmul = std::make_unique<kernels::Matmul>(s);
  return *matmul;
}

}  // namespace weft::exec
