// Writes the text form of a graph (declared in text.hpp).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text.hpp"

namespace weft::ir {
namespace {

// Texts are made by plain appending, because large plans have a hundred thousand lines, and each plan's hash
// reads them.

void append_number(std::string& text, std::int64_t number) {
  text += fmt::format_int(number).str();
}

void append_placement(std::string& text, const Placements& placement) {
  if (placement.empty()) return;
  char separator = '{';
  for (const Placement& p : placement) {
    text += separator;
    separator = ',';
    switch (p.kind) {
      case Placement::Kind::replicate: text += 'R'; break;
      case Placement::Kind::shard:
        text += 'S';
        append_number(text, p.dim);
        break;
      case Placement::Kind::partial: text += 'P'; break;
    }
  }
  text += '}';
}

void append_type(std::string& text, const Graph& graph, const Type& type, UnitId unit,
                 const Placements& placement) {
  text.append(name_of(type.dtype)) += '[';
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (i > 0) text += ',';
    append_number(text, type.shape[i]);
  }
  text += ']';
  if (unit.valid()) text.append("u(").append(graph.unit(unit).path) += ')';
  append_placement(text, placement);
}

void append_node(std::string& text, const Graph& graph, const Node& node) {
  text.append(name_of(node.phase)) += " r";
  append_number(text, node.round);
  if (node.chunk > 0) {
    text += '.';
    append_number(text, node.chunk);
  }
  text.append(" ").append(name_of(node.lane)).append(" ").append(node.module);
  text += node.module.empty() ? "| " : " | ";
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& v = graph.value(node.outputs[i]);
    text.append(i > 0 ? ", " : "").append(v.name) += ':';
    append_type(text, graph, v.type, v.unit, v.placement);
    if (v.home.valid()) text.append("@").append(graph.storage(v.home).name);
  }
  text.append(" = ").append(name_of(node.op)) += '(';
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    text.append(i > 0 ? ", " : "").append(graph.value(node.inputs[i]).name);
  text += ')';
  for (const auto& [attr, value] : node.attributes.list())
    text += fmt::format(" {}={}", name_of(attr), value);
  text += '\n';
}

}  // namespace

std::string print(const Graph& graph) {
  std::string text = fmt::format("graph {}\nmesh", graph.name());
  for (const MeshAxis& axis : graph.mesh().axes()) text += fmt::format(" {}={}", axis.name, axis.size);
  text += "\n";
  for (const Unit& unit : graph.units()) {
    text += fmt::format("unit {} {}", unit.path, unit.elements);
    if (unit.twin >= 0) text += fmt::format(" {} {}", unit.copy ? "copy_of" : "copied_by", unit.twin);
    text += '\n';
    for (const Parameter& p : unit.parameters)
      text += fmt::format("  {} [{}] {}\n", p.path, fmt::join(p.shape, ","), p.offset);
  }
  for (const Storage& s : graph.storages()) {
    text += fmt::format("storage {} {} ", s.name, name_of(s.role));
    append_type(text, graph, s.type, s.unit, s.placement);
    text += '\n';
  }
  for (const Node& node : graph.nodes()) append_node(text, graph, node);
  return text;
}

}  // namespace weft::ir
