// Lowers a graph to a plan (declared in plan.hpp): buffers and their offsets, instructions, waits, and the
// hash.
#include <algorithm>
#include <utility>

#include "base/hash.hpp"
#include "ir/text.hpp"
#include "ops/cost.hpp"
#include "plan/buffers.hpp"
#include "plan/hazards.hpp"
#include "plan/offsets.hpp"
#include "plan/plan.hpp"

namespace weft::plan {
namespace {

using ir::Node;
using ir::ValueId;

void set_locations(Plan& plan, const BufferTable& table) {
  const ir::Graph& graph = plan.graph;
  plan.storage_used.assign(graph.storages().size(), false);
  plan.storage_common.assign(graph.storages().size(), false);
  plan.locations.resize(graph.values().size());
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const ValueId id(v);
    if (!graph.value(id).producer.valid()) continue;
    Location& location = plan.locations[v];
    location.bytes = graph.local_bytes(id);
    location.rank_stride = table.rank_stride[v];
    location.offset = table.offset_in[v];
    if (table.buffer_of[v].valid()) {
      const Buffer& buffer = plan.buffers[table.buffer_of[v].index()];
      location.offset += buffer.offset;
      location.memory = buffer.memory;
    } else {
      location.memory = MemoryKind::storage;
      location.storage = table.storage_of[v];
      if (location.rank_stride < 0) plan.storage_common[location.storage.index()] = true;
    }
  }
}

/// Makes the instructions, with the waits that keep the bytes which several of them touch in order. A rank's
/// slice counts as the whole storage here, so that the plan is the same on all ranks.
class Lowering {
 public:
  explicit Lowering(Plan& plan) : plan_(plan), storages_(plan.graph.storages().size()) {}

  void run(const BufferTable& table) {
    const ir::Graph& graph = plan_.graph;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (ir::is_alias(node.op)) continue;
      Instruction instruction;
      instruction.node = ir::NodeId(i);
      instruction.lane = node.lane;
      instruction.sequence = ++count_[node.lane];
      if (table.scratch_of[i].valid()) {
        const Buffer& buffer = plan_.buffers[table.scratch_of[i].index()];
        instruction.scratch.offset = buffer.offset;
        instruction.scratch.bytes = buffer.bytes;
      }
      add_waits(node, instruction);
      plan_.instructions.push_back(std::move(instruction));
    }
  }

 private:
  void add_waits(const Node& node, Instruction& instruction) {
    Clock waits{};
    for (ValueId input : node.inputs)
      access(plan_.locations[input.index()], instruction, Access::read, waits);
    for (ValueId output : node.outputs)
      access(plan_.locations[output.index()], instruction, Access::write, waits);
    if (instruction.scratch.bytes > 0) access(instruction.scratch, instruction, Access::write, waits);
    instruction.waits = reducer_.reduce(instruction.lane, instruction.sequence, waits);
  }

  void access(const Location& location, const Instruction& i, Access kind, Clock& waits) {
    if (location.memory != MemoryKind::storage) {
      AddressSpace& space = location.memory == MemoryKind::arena ? arena_ : common_;
      space.access(location.offset, location.offset + location.bytes, i.lane, i.sequence, kind, waits);
      return;
    }
    plan_.storage_used[location.storage.index()] = true;
    AddressSpace& space = storages_[location.storage.index()];
    const std::int64_t whole = plan_.graph.local_bytes(plan_.graph.storage(location.storage));
    if (location.rank_stride != 0) {
      space.access(0, whole, i.lane, i.sequence, kind, waits);
    } else {
      space.access(location.offset, location.offset + location.bytes, i.lane, i.sequence, kind, waits);
    }
  }

  Plan& plan_;
  // Waits order this rank's instructions alone. Between ranks, the team's meetings around each collective do
  // it.
  AddressSpace arena_, common_;
  std::vector<AddressSpace> storages_;
  WaitReducer reducer_;
  PerLane<std::uint64_t> count_{};
};

/// The number by which ranks compare their plans (Session::check_same_plan()). It covers the graph as text:
/// its name, mesh, units with their parameters, storages, and all nodes with lanes, operands, types,
/// placements and attributes. It also covers the place of every value, that of the scratch of what
/// communicates (NCCL receives there), and the three sizes of the arena and of what a team shares. Not
/// covered are the waits and the places of other scratch, which belong to one rank. Deck, program and
/// libraries are compared by runtime/same.hpp.
std::uint64_t hash_of(const Plan& plan) {
  std::uint64_t hash = hash_text(ir::print(plan.graph));
  const auto add = [&](const Location& l) {
    const std::int64_t fields[] = {static_cast<std::int64_t>(l.memory),
                                   static_cast<std::int64_t>(l.storage.valid() ? l.storage.index() : 0),
                                   l.offset, l.bytes, l.rank_stride};
    hash = hash_bytes(fields, sizeof fields, hash);
  };
  for (const Location& l : plan.locations) add(l);
  for (const Instruction& i : plan.instructions)
    if (ir::communicates(plan.graph.node(i.node).op)) add(i.scratch);
  const std::int64_t sizes[] = {plan.arena_bytes, plan.shown_bytes, plan.common_bytes};
  return hash_bytes(sizes, sizeof sizes, hash);
}

/// Gives the buffers of one kind of memory their offsets; returns the size of that memory.
std::int64_t assign_offsets_in(MemoryKind memory, std::vector<Buffer>& buffers, MemoryReuse reuse) {
  std::vector<Buffer> there;
  for (const Buffer& b : buffers)
    if (b.memory == memory) there.push_back(b);
  for (Buffer& b : there) b.shared_by = 1;  // all of its bytes must find a place, not only one rank's share
  const std::int64_t bytes = assign_offsets(there, reuse);
  auto placed = there.begin();
  for (Buffer& b : buffers)
    if (b.memory == memory) b.offset = (placed++)->offset;
  return bytes;
}

}  // namespace

std::string_view name_of(MemoryKind memory) {
  switch (memory) {
    case MemoryKind::arena: return "arena";
    case MemoryKind::common: return "common";
    case MemoryKind::storage: return "storage";
  }
  return "?";
}

Plan lower(ir::Graph graph, const ScratchQuery& scratch, MemoryReuse reuse) {
  Plan plan;
  plan.graph = std::move(graph);
  BufferTable table = assign_buffers(plan.graph, scratch);
  for (const Node& node : plan.graph.nodes())
    if (ir::is_collective(node.op) && (node.lane == Lane::gather || node.lane == Lane::reduce))
      plan.team = std::max(plan.team, ops::team_of(node));
  plan.arena_bytes = assign_offsets_in(MemoryKind::arena, table.buffers, reuse);
  for (const Buffer& b : table.buffers)
    if (b.shown) plan.shown_bytes = std::max(plan.shown_bytes, b.offset + b.bytes);
  plan.common_bytes = assign_offsets_in(MemoryKind::common, table.buffers, reuse);
  plan.live_bytes = live_peak(table.buffers);
  plan.buffers = table.buffers;
  set_locations(plan, table);
  Lowering(plan).run(table);
  plan.hash = hash_of(plan);
  return plan;
}

}  // namespace weft::plan
