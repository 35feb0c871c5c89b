// Checks what a graph must know of the toy operation (toy_operation.patch): its shape rule, cost, derivative
// and text. toy_operation.sh compiles this against sources that have the operation, and runs it.
#include <cstdio>
#include <exception>
#include <string>

#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "ops/builder.hpp"
#include "ops/cost.hpp"
#include "ops/derivatives.hpp"
#include "ops/shapes.hpp"
#include "ops/verify.hpp"

namespace weft {
namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "not as it should be for squared_relu: %s\n", what);
  ++failures;
}

ir::ValueId input(ir::Graph& graph, ops::Builder& b, const char* name) {
  graph.add_storage({name, ir::Role::input, {DType::f32, {2, 3, 5}}, {}, {}});
  return b.state(graph.find_storage(name));
}

void check() {
  ir::Graph graph("toy", Mesh({{"data", 1}}), {});
  ops::Builder b(graph);
  const ir::ValueId x = input(graph, b, "x"), dy = input(graph, b, "dy");
  const ir::ValueId y = b.emit_one(ir::Op::squared_relu, "net", {x}, "net.y");
  expect(graph.value(y).type == graph.value(x).type, "shape rule");
  expect(ops::batch_rule(ir::Op::squared_relu, 0) == ops::BatchRule::rows, "batch rule");
  const ir::Node forward = graph.node(graph.value(y).producer);
  expect(ops::cost(graph, forward).bytes == 2 * 30 * 4, "cost");

  b.at(ir::Phase::backward, 0);
  const std::vector<ir::ValueId> output_gradients{dy}, so_far(1);
  const std::vector<ir::ValueId> gradients = ops::differentiate(b, forward, output_gradients, so_far);
  expect(gradients.size() == 1 && graph.value(gradients[0]).type == graph.value(x).type, "derivative");

  ir::verify(graph);
  ops::verify_types(graph);
  const std::string text = ir::print(graph);
  expect(text.find("= squared_relu(x)") != text.npos && text.find("= squared_relu_grad(x, dy)") != text.npos,
         "text");
  expect(ir::print(ir::parse(text)) == text, "text, read again");
}

}  // namespace
}  // namespace weft

int main() {
  try {
    weft::check();
  } catch (const std::exception& e) {
    weft::expect(false, e.what());
  }
  return weft::failures == 0 ? 0 : 1;
}
