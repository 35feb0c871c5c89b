// Proves that a plan is right (declared in plan.hpp).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/cost.hpp"
#include "plan/hazards.hpp"
#include "plan/plan.hpp"

namespace weft::plan {
namespace {

using InstructionId = Id<struct InstructionTag>;

/// What is done before what. It proves lower() in another way: it finds this order by vector clocks from the
/// waits alone, and then every pair of buffers that share bytes, and every producer and consumer, is looked
/// up in it.
class Order {
 public:
  explicit Order(const Plan& plan) : plan_(plan), by_node_(plan.graph.nodes().size()) {
    PerLane<Clock> lane_clock{};
    for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& instruction = plan.instructions[i];
      by_node_[instruction.node.index()] = InstructionId(i);
      Clock& clock = lane_clock[instruction.lane];
      for (const Wait& wait : instruction.waits) raise(clock, done_.at({wait.lane, wait.sequence}));
      before_.push_back(clock);  // what is done when this instruction starts
      clock[instruction.lane] = instruction.sequence;
      done_[{instruction.lane, instruction.sequence}] = clock;
    }
  }

  bool runs(ir::NodeId node) const { return by_node_[node.index()].valid(); }
  /// Whether a is done before b starts.
  bool ordered(ir::NodeId a, ir::NodeId b) const {
    const Instruction& first = plan_.instructions[by_node_[a.index()].index()];
    return before_[by_node_[b.index()].index()][first.lane] >= first.sequence;
  }

 private:
  const Plan& plan_;
  std::vector<InstructionId> by_node_;  ///< the instruction of each node; invalid: nothing runs for it
  std::vector<Clock> before_;
  std::map<std::pair<Lane, std::uint64_t>, Clock> done_;
};

[[noreturn]] void fail(const Plan& plan, ir::NodeId a, ir::NodeId b, const char* why) {
  const auto name = [&](ir::NodeId id) {
    const ir::Node& node = plan.graph.node(id);
    return std::string(name_of(node.op)) + " -> " +
           (node.outputs.empty() ? "" : plan.graph.value(node.outputs.front()).name);
  };
  throw std::logic_error(
      fmt::format("plan {}: '{}' is not ordered before '{}' ({})", plan.graph.name(), name(a), name(b), why));
}

/// An instruction that touches a stretch of a buffer.
struct User {
  ir::NodeId node;
  std::int64_t begin = 0, end = 0;
  bool writes = false;
};
using Users = std::vector<User>;

void check_dataflow(const Plan& plan, const Order& order) {
  for (const Instruction& instruction : plan.instructions)
    for (ir::ValueId input : plan.graph.node(instruction.node).inputs) {
      const ir::NodeId producer = plan.graph.value(plan.graph.alias_root(input)).producer;
      if (order.runs(producer) && !order.ordered(producer, instruction.node))
        fail(plan, producer, instruction.node, "it reads its result");
    }
}

/// Checks every two accesses of the same bytes of a storage, in program order, of which one is a write.
void check_storages(const Plan& plan, const Order& order) {
  std::vector<ir::NodeId> last_write(plan.graph.storages().size());
  std::vector<std::vector<ir::NodeId>> reads(plan.graph.storages().size());
  const auto check_write = [&](std::size_t s, ir::NodeId node) {
    if (last_write[s].valid() && last_write[s] != node && !order.ordered(last_write[s], node))
      fail(plan, last_write[s], node, "both write a storage");
    for (ir::NodeId read : reads[s])
      if (read != node && !order.ordered(read, node))
        fail(plan, read, node, "it overwrites what the first reads");
    reads[s].clear();
    last_write[s] = node;
  };
  const auto check_read = [&](std::size_t s, ir::NodeId node) {
    if (last_write[s].valid() && !order.ordered(last_write[s], node))
      fail(plan, last_write[s], node, "it reads what the first writes");
    reads[s].push_back(node);
  };
  for (const Instruction& instruction : plan.instructions) {
    const ir::Node& node = plan.graph.node(instruction.node);
    for (ir::ValueId input : node.inputs)
      if (const ir::StorageId home = plan.locations[input.index()].storage; home.valid())
        check_read(home.index(), instruction.node);
    for (ir::ValueId output : node.outputs)
      if (const ir::StorageId home = plan.locations[output.index()].storage; home.valid())
        check_write(home.index(), instruction.node);
  }
}

/// The users of each buffer, in program order.
std::vector<Users> buffer_users(const Plan& plan) {
  std::vector<Users> users(plan.buffers.size());
  // One map is for the arena, the other for the common stretch.
  std::array<std::map<std::int64_t, std::vector<std::size_t>>, 2> by_offset;
  const auto of = [&](MemoryKind memory) -> auto& {
    return by_offset[memory == MemoryKind::arena ? 0 : 1];
  };
  for (std::size_t b = 0; b < plan.buffers.size(); ++b)
    of(plan.buffers[b].memory)[plan.buffers[b].offset].push_back(b);
  const auto add = [&](const Location& location, ir::NodeId node, bool writes) {
    if (location.memory == MemoryKind::storage || location.bytes == 0) return;
    const auto place = static_cast<std::int64_t>(node.index());
    const auto& there = of(location.memory);
    for (auto it = there.upper_bound(location.offset); it != there.begin();) {
      --it;
      for (const std::size_t b : it->second) {
        const Buffer& buffer = plan.buffers[b];
        if (buffer.first > place || place > buffer.last ||
            location.offset + location.bytes > buffer.offset + buffer.bytes)
          continue;
        users[b].push_back({node, location.offset, location.offset + location.bytes, writes});
        return;
      }
    }
    fail(plan, node, node, "it touches bytes that no buffer holds");
  };
  for (const Instruction& instruction : plan.instructions) {
    const ir::Node& node = plan.graph.node(instruction.node);
    for (ir::ValueId v : node.inputs) add(plan.locations[v.index()], instruction.node, false);
    for (ir::ValueId v : node.outputs) add(plan.locations[v.index()], instruction.node, true);
    if (instruction.scratch.bytes > 0) add(instruction.scratch, instruction.node, true);
  }
  return users;
}

/// Checks every two accesses of the same bytes of a buffer, of which one is a write: what is made in place
/// must wait for all who read what stood there.
void check_in_place(const Plan& plan, const Order& order, const Users& users) {
  for (std::size_t a = 0; a < users.size(); ++a)
    for (std::size_t b = a + 1; b < users.size(); ++b) {
      const User &earlier = users[a], &later = users[b];
      if ((earlier.writes || later.writes) && earlier.node != later.node && earlier.begin < later.end &&
          later.begin < earlier.end && !order.ordered(earlier.node, later.node))
        fail(plan, earlier.node, later.node, "both use the same bytes of a buffer");
    }
}

void check_buffers(const Plan& plan, const Order& order) {
  const std::vector<Users> users = buffer_users(plan);
  for (const Users& of_one : users) check_in_place(plan, order, of_one);
  for (std::size_t a = 0; a < plan.buffers.size(); ++a)
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      const Buffer &first = plan.buffers[a], &second = plan.buffers[b];
      const bool shares = first.memory == second.memory && first.offset < second.offset + second.bytes &&
                          second.offset < first.offset + first.bytes;
      if (a == b || !shares || first.first > second.first || users[a].empty() || users[b].empty()) continue;
      if (second.first <= first.last)
        fail(plan, users[a][0].node, users[b][0].node, "their buffers overlap while both are held");
      for (const User& earlier : users[a])
        for (const User& later : users[b])
          if (earlier.begin < later.end && later.begin < earlier.end &&
              !order.ordered(earlier.node, later.node))
            fail(plan, earlier.node, later.node, "it takes over the first one's bytes");
    }
}

/// Whether the channel of the node's lane reads neighbours' parts, if what it is given stands there.
bool reads_parts(const Plan& plan, const ir::Node& node) {
  const Teams& teams = plan.graph.mesh().teams();
  // A sum of a unit over its copies is a reduce-scatter and a gather; other sums are messages.
  const bool sums = node.op == ir::Op::all_reduce && !plan.graph.value(node.outputs.front()).unit.valid();
  if (node.lane == Lane::tensor) return teams.tensor > 1 && !sums;
  if (node.lane == Lane::context) return teams.context > 1;
  return node.lane == Lane::reduce && node.op == ir::Op::reduce_scatter && teams.data > 1;
}

/// Checks that what a team's collectives share stands in its window, and nothing of the others. Elsewhere
/// each rank would wait for messages that the others do not send.
void check_team(const Plan& plan) {
  for (const Instruction& instruction : plan.instructions) {
    const ir::Node& node = plan.graph.node(instruction.node);
    if (!ir::is_collective(node.op)) continue;
    if (ops::team_of(node) == 1) {
      for (const ir::ValueId input : node.inputs) {
        const Location& l = plan.locations[input.index()];
        if (reads_parts(plan, node) && l.memory == MemoryKind::arena && l.offset < plan.shown_bytes)
          fail(plan, instruction.node, instruction.node, "neighbours would be read, who send a message");
      }
      continue;
    }
    const bool gathers = ops::gathers_in_common(node);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Location& l = plan.locations[(gathers ? node.outputs : node.inputs)[i].index()];
      const bool shown =
          l.memory == MemoryKind::arena && l.offset + l.bytes <= plan.shown_bytes && l.rank_stride == 0;
      const bool seen = l.memory == MemoryKind::common ||
                        (l.memory == MemoryKind::storage && plan.storage_common[l.storage.index()]);
      if (gathers ? !seen : !shown)
        fail(plan, instruction.node, instruction.node, "the team does not see all of it");
    }
  }
}

/// Checks storages that a team sees. All its ranks read them, and each writes its own slice, which no wait of
/// a single rank orders. A collective does order them: it ends on a rank when all ranks have begun it, and
/// each begins it after what it waits for.
class TeamOrder {
 public:
  TeamOrder(const Plan& plan, const Order& order) : plan_(plan), order_(order) {
    const int axis = plan.graph.mesh().axis(data_axis);
    for (const Instruction& i : plan.instructions)
      if (ir::is_collective(node(i.node).op) && node(i.node).attributes.integer(ir::Attr::axis) == axis)
        collectives_.push_back(i.node);
  }

  void check() const {
    for (const Instruction& write : plan_.instructions)
      for (const ir::ValueId output : node(write.node).outputs) {
        const Location& l = plan_.locations[output.index()];
        const bool own = l.storage.valid() && plan_.storage_common[l.storage.index()] && l.rank_stride == 0;
        if (own) check_write(write.node, l.storage);
      }
  }

 private:
  const ir::Node& node(ir::NodeId id) const { return plan_.graph.node(id); }

  /// Checks a write against each read of the whole storage, by this run of the plan and by the run before it,
  /// which may have been of any plan.
  void check_write(ir::NodeId write, ir::StorageId storage) const {
    for (const Instruction& read : plan_.instructions)
      for (const ir::ValueId input : node(read.node).inputs) {
        const Location& l = plan_.locations[input.index()];
        if (l.storage != storage || l.rank_stride == 0) continue;
        const ir::NodeId gather = plan_.graph.value(plan_.graph.alias_root(input)).producer;
        const bool earlier = read.node.index() <= write.index();
        if (!earlier && gather.index() < write.index())
          fail(plan_, read.node, write, "it reads in place what is overwritten by then");
        if (!all_met(earlier ? read.node : ir::NodeId(), write))
          fail(plan_, read.node, write, "another rank of the team may read what it overwrites");
      }
  }
  /// Whether all ranks are past `read` (or past the run before) when one begins `write`.
  bool all_met(ir::NodeId read, ir::NodeId write) const {
    return std::any_of(collectives_.begin(), collectives_.end(), [&](ir::NodeId c) {
      return (c == write || order_.ordered(c, write)) && (!read.valid() || order_.ordered(read, c));
    });
  }

  const Plan& plan_;
  const Order& order_;
  std::vector<ir::NodeId> collectives_;  ///< collectives over the axis that teams are on
};

}  // namespace

void verify(const Plan& plan) {
  check_team(plan);
  const Order order(plan);
  check_dataflow(plan, order);
  check_storages(plan, order);
  check_buffers(plan, order);
  if (plan.team > 1) TeamOrder(plan, order).check();
}

}  // namespace weft::plan
