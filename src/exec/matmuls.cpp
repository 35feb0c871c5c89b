#include "exec/matmuls.hpp"

#include <set>
#include <string>

namespace weft::exec {

using namespace ir::operand;

kernels::MatmulSpec matmul_spec(const ir::Graph& graph, const ir::Node& node) {
  const auto width = [&](ir::ValueId v) { return graph.value(v).type.shape.back(); };
  kernels::MatmulSpec spec{};
  ir::ValueId rows, result;
  switch (node.op) {
    case ir::Op::matmul_dgrad:
      rows = node.in(matmul_dgrad::dy);
      result = node.out(matmul_dgrad::dx);
      spec.form = kernels::MatmulForm::dgrad;
      spec.out = width(rows);
      spec.in = width(result);
      spec.add = node.has(matmul_dgrad::so_far);
      break;
    case ir::Op::matmul_f8:
    case ir::Op::matmul_dgrad_f8:
      rows = node.in(matmul_f8::x8);
      result = node.out(matmul_f8::y);
      spec.form = node.op == ir::Op::matmul_f8 ? kernels::MatmulForm::forward : kernels::MatmulForm::dgrad;
      spec.in = width(spec.form == kernels::MatmulForm::forward ? rows : result);
      spec.out = width(spec.form == kernels::MatmulForm::forward ? result : rows);
      spec.add = node.has(matmul_dgrad_f8::so_far);
      break;
    case ir::Op::matmul_wgrad:
      rows = node.in(matmul_wgrad::dy);
      result = node.out(matmul_wgrad::dw);
      spec.form = kernels::MatmulForm::wgrad;
      spec.out = width(rows);
      spec.in = width(node.in(matmul_wgrad::x));
      break;
    default:
      rows = node.in(matmul::x);
      result = node.out(matmul::y);
      spec.form = kernels::MatmulForm::forward;
      spec.in = width(rows);
      spec.out = width(result);
      break;
  }
  spec.rows = graph.local_elements(rows) / width(rows);
  spec.result = graph.value(result).type.dtype;
  spec.type = ir::is_float8_product(node.op) ? DType::bf16 : graph.value(rows).type.dtype;
  return spec;
}

Float8Scales float8_scales(const ir::Node& node) {
  return node.attributes.has(ir::Attr::tensorwise) ? Float8Scales::tensorwise : Float8Scales::rowwise;
}

kernels::LinearCrossEntropySpec linear_loss_spec(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId h = node.in(linear_cross_entropy::h);
  const ir::Type& w = graph.value(node.in(linear_cross_entropy::w)).type;
  kernels::LinearCrossEntropySpec spec{};
  spec.in = w.shape[1];
  spec.vocab = w.shape[0];
  spec.rows = graph.local_elements(h) / spec.in;
  spec.chunk = node.attributes.integer(ir::Attr::rows);
  spec.type = graph.value(h).type.dtype;
  spec.dw_type = node.has(linear_cross_entropy::dw)
                     ? graph.value(node.out(linear_cross_entropy::dw)).type.dtype
                     : w.dtype;
  return spec;
}

kernels::LinearCrossEntropy& Matmuls::get(kernels::LinearCrossEntropySpec spec) {
  spec.f32_products = f32_products_;
  auto& loss = losses_[spec];
  if (!loss) {
    loss = std::make_unique<kernels::LinearCrossEntropy>(spec);
    for (kernels::Matmul* matmul : loss->matmuls()) take_for(*matmul);
  }
  return *loss;
}

kernels::Matmul& Matmuls::get(kernels::MatmulSpec s) {
  s.f32_products = f32_products_;
  auto& matmul = by_spec_[key(s)];
  if (!matmul) {
    matmul = std::make_unique<kernels::Matmul>(s);
    take_for(*matmul);
  }
  return *matmul;
}

std::vector<kernels::Matmul*> Matmuls::all() {
  std::vector<kernels::Matmul*> all;
  for (auto& [spec, matmul] : by_spec_) all.push_back(matmul.get());
  for (auto& [spec, loss] : losses_)
    for (kernels::Matmul* matmul : loss->matmuls()) all.push_back(matmul);
  return all;
}

void Matmuls::take(kernels::ProductAlgorithms algorithms) {
  algorithms_ = std::move(algorithms);
  for (kernels::Matmul* matmul : all()) take_for(*matmul);
  for (kernels::Float8Matmul* matmul : float8_products()) take_for(*matmul);
}

std::vector<kernels::Matmul*> Matmuls::products() {
  std::set<std::string> names;
  std::vector<kernels::Matmul*> products;
  for (kernels::Matmul* matmul : all())
    if (names.insert(kernels::name_of(matmul->spec())).second) products.push_back(matmul);
  return products;
}

std::vector<kernels::Float8Matmul*> Matmuls::float8_products() {
  std::vector<kernels::Float8Matmul*> products;
  for (auto& [spec, matmul] : float8_) products.push_back(matmul.get());
  return products;
}

kernels::Float8Matmul& Matmuls::get_float8(const ir::Graph& graph, const ir::Node& node) {
  const kernels::MatmulSpec spec = matmul_spec(graph, node);
  const DType format = graph.value(node.in(matmul_f8::x8)).type.dtype;
  const Float8Scales scales = float8_scales(node);
  auto& matmul = float8_[{key(spec), format, scales}];
  if (!matmul) {
    matmul = kernels::make_float8_matmul(spec, format, scales);
    take_for(*matmul);
  }
  return *matmul;
}

}  // namespace weft::exec
