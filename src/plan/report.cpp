#include "plan/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/text.hpp"
#include "machine/cost_model.hpp"
#include "ops/cost.hpp"
#include "plan/kept.hpp"
#include "plan/offsets.hpp"

namespace weft::plan {
namespace {

using ir::Node;

void print_head(const Plan& plan, std::string& text) {
  const ir::Graph& graph = plan.graph;
  std::int64_t parameters = 0;
  for (const Unit& unit : graph.units()) parameters += unit.elements;
  text +=
      fmt::format("plan {}: {} parameters in {} units, mesh", graph.name(), parameters, graph.units().size());
  for (const MeshAxis& axis : graph.mesh().axes()) text += fmt::format(" {}={}", axis.name, axis.size);
  std::array<std::int64_t, 3> nodes{};
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    ++nodes[static_cast<std::size_t>(node.phase)];
    flops += ops::cost(graph, node).flops;
  }
  text += fmt::format(", hash {:016x}\n", plan.hash);
  text += fmt::format(
      "nodes: {} ({} forward, {} backward, {} update), {} instructions, {:.3g} FLOP a rank and step\n",
      graph.nodes().size(), nodes[0], nodes[1], nodes[2], plan.instructions.size(), flops);
}

/// Prints the units. Those that are equal but for the number in their name share a row.
void print_units(const Plan& plan, std::string& text) {
  struct Row {
    std::string path;
    const Unit* unit;
    int count;
  };
  std::vector<Row> rows;
  for (const Unit& unit : plan.graph.units()) {
    std::string path = unit.path;
    if (const std::size_t dot = path.find_last_of('.');
        path.starts_with("layers.") && dot != std::string::npos)
      path = "layers.*" + path.substr(dot);
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
      return r.path == path && r.unit->elements == unit.elements;
    });
    if (same != rows.end()) {
      ++same->count;
    } else {
      rows.push_back({path, &unit, 1});
    }
  }
  const Mesh& mesh = plan.graph.mesh();
  text += fmt::format("\n{:<38} {:>7} {:>14} {:>16} {:>12}\n", "units", "count", "elements", "with padding",
                      "a shard");
  for (const Row& r : rows) {
    const std::int64_t padded = r.unit->padded_elements(mesh.unit_ranks(r.unit->copies));
    text += fmt::format("  {:<36} {:>7} {:>14} {:>16} {:>12}\n", r.path, r.count, r.unit->elements, padded,
                        padded / mesh.size(data_axis));
  }
}

void print_collectives(const Plan& plan, std::string& text) {
  const auto totals = collective_totals(plan);
  text += fmt::format("\n{:<38} {:>7} {:>14} {:>20}\n", "collectives in a step", "count", "payload",
                      "sent by a rank");
  std::int64_t wire = 0;
  for (const auto& [name, t] : totals) {
    text += fmt::format("  {:<36} {:>7} {:>14} {:>20}\n", name, t.count, bytes_text(t.payload_bytes),
                        bytes_text(t.wire_bytes));
    wire += t.wire_bytes;
  }
  if (totals.empty()) {
    text += "  none (one rank)\n";
  } else {
    text += fmt::format("  {:<36} {:>7} {:>14} {:>20}\n", "all", "", "", bytes_text(wire));
  }
}

void print_memory(const Plan& plan, const ReportOptions& options, std::string& text) {
  text += fmt::format("\n{:<38} {:>22}\n", "memory of a rank", "bytes");
  const auto row = [&](const std::string& name, std::int64_t bytes, const std::string& remark = "") {
    text += fmt::format("  {:<36} {:>14} {:>12}{}\n", name, bytes, bytes_text(bytes), remark);
  };
  std::map<std::string, std::array<std::int64_t, 2>> roles;  // bytes, and those of them that the team sees
  for (std::size_t i = 0; i < plan.graph.storages().size(); ++i) {
    const ir::Storage& s = plan.graph.storages()[i];
    if (!plan.storage_used[i]) continue;
    auto& [bytes, seen] = roles[std::string(name_of(s.role))];
    bytes += plan.graph.local_bytes(s);
    if (plan.storage_common[i]) seen += plan.graph.local_bytes(s);
  }
  for (const auto& [role, bytes] : roles) {
    row(role, bytes[0]);
    if (bytes[1] > 0) row("  of it read by the team", bytes[1]);
  }
  const std::string live = fmt::format("   (live at the peak: {})", bytes_text(plan.live_bytes));
  row("arena", plan.arena_bytes, plan.common_bytes == 0 ? live : "");
  if (plan.shares_memory()) row("  of it read by the team", plan.shown_bytes);
  if (plan.common_bytes > 0)
    row(fmt::format("1/{} of gathered parameters", plan.team), share_of(plan.common_bytes, plan.team), live);
  row("planned", persistent_bytes(plan) + plan.peak_bytes());

  const std::int64_t place = live_peak_place(plan.buffers);
  const std::vector<Holder> held = holders_at(plan, place);
  text += fmt::format("\nlargest holders at the peak ({}), of {} buffers\n", place_text(plan, place),
                      held.size());
  for (std::size_t i = 0; i < std::min(held.size(), static_cast<std::size_t>(options.holders)); ++i)
    text += fmt::format("  {:<36} {:>14} {:>12}\n", held[i].name, held[i].bytes, bytes_text(held[i].bytes));
}

std::string names_of(const std::vector<KeptValue>& values) {
  std::string text;
  for (const KeptValue& v : values) text += (text.empty() ? "" : ", ") + v.name;
  return text;
}

void print_kept(const Plan& plan, std::string& text) {
  const auto row = [&](const std::string& name, int count, std::int64_t bytes, const std::string& values) {
    text += fmt::format("  {:<36} {:>7} {:>14} {:>14}   {}\n", name, count, bytes_text(bytes / count),
                        bytes_text(bytes), values);
  };
  std::int64_t all = 0;
  text += fmt::format("\n{:<38} {:>7} {:>14} {:>14}   values\n", "kept from forward for backward", "count",
                      "each", "in all");
  const std::vector<KeptKind> kinds = kept_for_backward(plan.graph);
  for (const KeptKind& kind : kinds) {
    if (!kind.kept.empty()) row(kind.module, kind.modules, kind.kept_bytes(), names_of(kind.kept));
    all += kind.kept_bytes();
  }
  text += fmt::format("  {:<36} {:>7} {:>14} {:>14}\n", "all, of a microbatch", "", "", bytes_text(all));
  for (const KeptKind& kind : kinds)
    if (!kind.computed.empty())
      row(kind.module + ", computed again", kind.modules, kind.computed_bytes(), names_of(kind.computed));
}

std::string location_text(const Plan& plan, const Location& location) {
  const std::string memory = location.memory == MemoryKind::storage
                                 ? plan.graph.storage(location.storage).name
                                 : std::string(name_of(location.memory));
  const std::int64_t stride = location.rank_stride;
  const std::string rank =
      stride == 0 ? "" : fmt::format(" {} rank * {}", stride > 0 ? '+' : '-', std::abs(stride));
  return fmt::format("[{} {}..{}{}]", memory, location.offset, location.offset + location.bytes, rank);
}

void print_values(const Plan& plan, const std::vector<ir::ValueId>& values, std::string& text) {
  for (const ir::ValueId id : values)
    text += " %" + plan.graph.value(id).name + location_text(plan, plan.locations[id.index()]);
}

}  // namespace

std::vector<Holder> holders_at(const Plan& plan, std::int64_t place) {
  std::vector<Holder> held;
  for (const Buffer& b : plan.buffers) {
    if (place < b.first || b.last < place) continue;
    if (b.value.valid()) {
      held.push_back({plan.graph.value(b.value).name, b.on_a_rank()});
    } else {
      const Node& node = plan.graph.node(b.scratch_of);
      held.push_back({fmt::format("scratch of {} {}", name_of(node.op), node.module), b.on_a_rank()});
    }
  }
  std::stable_sort(held.begin(), held.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return held;
}

std::string place_text(const Plan& plan, std::int64_t place) {
  const Node& node = plan.graph.nodes()[static_cast<std::size_t>(place)];
  return fmt::format("{} {} in {}", name_of(node.phase), name_of(node.op), node.module);
}

std::map<std::string, CollectiveTotal> collective_totals(const Plan& plan) {
  std::map<std::string, CollectiveTotal> totals;
  for (const Node& node : plan.graph.nodes()) {
    if (!ir::communicates(node.op)) continue;
    std::string name = fmt::format("{} {} {}", name_of(node.phase), name_of(node.op),
                                   name_of(machine::wire_of(plan.graph, node)));
    const Mesh& mesh = plan.graph.mesh();
    if (mesh.axes().size() > 1) {
      const std::string& axis =
          mesh.axes()[static_cast<std::size_t>(node.attributes.integer(ir::Attr::axis))].name;
      name += " " + axis;
      if (axis == data_axis && mesh.size(context_axis) > 1) name += fmt::format(", {}", context_axis);
    }
    CollectiveTotal& t = totals[name];
    ++t.count;
    t.payload_bytes += ops::payload_bytes(plan.graph, node);
    t.wire_bytes += ops::wire_bytes(plan.graph, node);
  }
  return totals;
}

std::int64_t persistent_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < plan.graph.storages().size(); ++i)
    if (plan.storage_used[i]) bytes += plan.graph.local_bytes(plan.graph.storages()[i]);
  return bytes;
}

std::string report(const Plan& plan, const ReportOptions& options) {
  std::string text;
  print_head(plan, text);
  print_units(plan, text);
  print_collectives(plan, text);
  print_memory(plan, options, text);
  print_kept(plan, text);
  return text;
}

std::string print_instructions(const Plan& plan) {
  std::string text =
      fmt::format("plan {}: arena {} bytes, hash {:016x}\n", plan.graph.name(), plan.arena_bytes, plan.hash);
  for (const Instruction& i : plan.instructions) {
    const Node& node = plan.graph.node(i.node);
    text += fmt::format("{} {}: {} {}", name_of(i.lane), i.sequence, name_of(node.op), node.module);
    print_values(plan, node.outputs, text);
    text += " <-";
    print_values(plan, node.inputs, text);
    if (i.scratch.bytes > 0) text += " scratch" + location_text(plan, i.scratch);
    for (const Wait& wait : i.waits) text += fmt::format(" after {} {}", name_of(wait.lane), wait.sequence);
    text += "\n";
  }
  return text;
}

}  // namespace weft::plan
