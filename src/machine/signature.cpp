#include "machine/signature.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weft::machine {
namespace {

using ir::Attr;

/// Whether the kernel's time depends on the attribute. Extents that show in the operands' shapes do not count
/// again.
bool matters(Attr attr) {
  switch (attr) {
    case Attr::any_order:
    case Attr::rows:
    case Attr::heads:
    case Attr::kv_heads:
    case Attr::head_dim:
    case Attr::inverse:
    case Attr::tensorwise: return true;
    default: return false;
  }
}

void append(std::string& text, const ir::Graph& graph, ir::ValueId id) {
  const ir::Value& value = graph.value(id);
  text += ' ';
  text += name_of(value.type.dtype);
  text += '[';
  if (value.unit.valid()) {
    text += fmt::format("{}", graph.local_elements(id));
  } else {
    bool first = true;
    for (const std::int64_t extent : graph.local_shape(id)) {
      text += fmt::format("{}{}", first ? "" : ",", extent);
      first = false;
    }
  }
  text += ']';
}

}  // namespace

std::string signature(const ir::Graph& graph, const ir::Node& node) {
  std::string text(name_of(node.op));
  for (const ir::ValueId v : node.inputs) append(text, graph, v);
  for (const auto& [attr, value] : node.attributes.list())
    if (matters(attr)) text += fmt::format(" {}={}", name_of(attr), value);
  text += " ->";
  for (const ir::ValueId v : node.outputs) append(text, graph, v);
  return text;
}

std::string family(std::string_view signature) {
  std::string text;
  while (!signature.empty()) {
    const std::size_t end = std::min(signature.find(' '), signature.size());
    const std::string_view word = signature.substr(0, end);
    signature.remove_prefix(std::min(end + 1, signature.size()));
    const bool tensorwise = word == "tensorwise=1";
    if (word.find('=') != std::string_view::npos && !tensorwise) continue;
    if (!text.empty()) text += ' ';
    text += word.substr(0, word.find(tensorwise ? '=' : '['));
  }
  return text;
}

std::string family(const ir::Graph& graph, const ir::Node& node) {
  std::string text(name_of(node.op));
  const auto append_types = [&](const auto& values) {
    for (const ir::ValueId v : values) {
      text += ' ';
      text += name_of(graph.value(v).type.dtype);
    }
  };
  append_types(node.inputs);
  if (node.attributes.has(Attr::tensorwise)) text += " tensorwise";
  text += " ->";
  append_types(node.outputs);
  return text;
}

}  // namespace weft::machine
