#include "ops/verify.hpp"

#include <fmt/core.h>

#include <stdexcept>

#include "ops/shapes.hpp"

namespace weft::ops {
void verify_types(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (!has_shape_rule(node.op)) continue;
    const std::vector<ir::Type> types = infer(graph, node.op, node.inputs, node.attributes);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const ir::Value& value = graph.value(node.outputs[i]);
      const bool same_dtype = value.type.dtype == types[i].dtype || is_parameter_gradient(node.op, i);
      if (element_count(value.type.shape) != element_count(types[i].shape) || !same_dtype)
        throw std::logic_error(
            fmt::format("'{}' = {} has another type than its operation gives", value.name, name_of(node.op)));
    }
  }
}

}  // namespace weft::ops
