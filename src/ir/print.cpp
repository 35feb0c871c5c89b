#include <fmt/format.h>

#include "ir/text.hpp"

namespace weft::ir {
namespace {

std::string print_placement(const std::vector<Placement>& placement) {
  if (placement.empty()) return "";
  std::string text = "{";
  for (const Placement& p : placement) {
    if (text.size() > 1) text += ",";
    switch (p.kind) {
      case Placement::Kind::replicate: text += "R"; break;
      case Placement::Kind::shard: text += fmt::format("S{}", p.dim); break;
      case Placement::Kind::partial: text += "P"; break;
    }
  }
  return text + "}";
}

std::string print_type(const Graph& graph, const Type& type, UnitId unit,
                       const std::vector<Placement>& placement) {
  std::string text = fmt::format("{}[{}]", name_of(type.dtype), fmt::join(type.shape, ","));
  if (unit.valid()) text += fmt::format("u({})", graph.unit(unit).path);
  return text + print_placement(placement);
}

void print_node(const Graph& graph, const Node& node, std::string& text) {
  text += fmt::format("{} r{} {} {} | ", name_of(node.phase), node.round, name_of(node.lane), node.module);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& v = graph.value(node.outputs[i]);
    text += fmt::format("{}{}:{}", i ? ", " : "", v.name, print_type(graph, v.type, v.unit, v.placement));
    if (v.home.valid()) text += "@" + graph.storage(v.home).name;
  }
  text += fmt::format(" = {}(", name_of(node.op));
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    text += fmt::format("{}{}", i ? ", " : "", graph.value(node.inputs[i]).name);
  text += ")";
  for (const auto& [attr, value] : node.attributes.list())
    text += fmt::format(" {}={}", name_of(attr), value);
  text += "\n";
}

}  // namespace

std::string print(const Graph& graph) {
  std::string text = fmt::format("graph {}\nmesh", graph.name());
  for (const MeshAxis& axis : graph.mesh().axes()) text += fmt::format(" {}={}", axis.name, axis.size);
  text += "\n";
  for (const Unit& unit : graph.units()) {
    text += fmt::format("unit {} {}\n", unit.path, unit.elements);
    for (const Parameter& p : unit.parameters)
      text += fmt::format("  {} [{}] {}\n", p.path, fmt::join(p.shape, ","), p.offset);
  }
  for (const Storage& s : graph.storages())
    text += fmt::format("storage {} {} {}\n", s.name, name_of(s.role),
                        print_type(graph, s.type, s.unit, s.placement));
  for (const Node& node : graph.nodes()) print_node(graph, node, text);
  return text;
}

}  // namespace weft::ir
