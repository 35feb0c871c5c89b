// The pass bucket: makes one collective of those of each bucket.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes/collectives.hpp"
#include "passes/module_path.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Phase;
using ir::ValueId;

/// Collectives that become one. They are of one kind, phase, round and bucket, and follow each other on their
/// lane.
struct Group {
  std::vector<NodeId> members;  ///< in program order
  NodeId place;                 ///< where the group stands: a gather's first member, a reduction's last
};

using GroupId = Id<struct GroupTag>;

class BucketPass {
 public:
  BucketPass(const ir::Graph& before, const Buckets& buckets)
      : before_(before),
        after_(before.without_nodes()),
        buckets_(buckets),
        group_of_(before.nodes().size()),
        emitted_(before.nodes().size(), false) {}

  ir::Graph run() {
    for (const Lane lane : {Lane::gather, Lane::reduce, Lane::replica}) collect(lane);
    for (std::size_t i = 0; i < before_.nodes().size(); ++i) {
      const GroupId group = group_of_[i];
      if (!group.valid()) {
        emit(NodeId(i));
      } else if (groups_[group.index()].place == NodeId(i)) {
        emit_group(groups_[group.index()]);
      }
    }
    return std::move(after_);
  }

 private:
  /// The bucket of a collective over whole units; nothing for the collectives of the losses and of the norm.
  std::optional<int> bucket_of(const Node& node) const {
    const ir::UnitId unit = before_.value(node.outputs.front()).unit;
    if (!unit.valid()) return std::nullopt;
    if (is_parameter_gather(node))
      return (node.phase == Phase::forward ? buckets_.forward : buckets_.backward)[unit.index()];
    if (node.op == Op::reduce_scatter || node.op == Op::all_reduce) return buckets_.reduce[unit.index()];
    return std::nullopt;
  }

  void collect(Lane lane) {
    struct Open {
      std::pair<int, Phase> key;
      GroupId group;
    };
    // By round, the group that may still grow; of several rounds where they take turns.
    std::map<int, Open> open;
    const bool turns = take_turns(before_);
    for (std::size_t i = 0; i < before_.nodes().size(); ++i) {
      const Node& node = before_.nodes()[i];
      if (node.lane != lane) continue;
      if (!turns && !open.contains(node.round)) open.clear();
      const std::optional<int> bucket = bucket_of(node);
      if (!bucket || node.attributes.has(ir::Attr::used)) {
        open.erase(node.round);
        continue;
      }
      const std::pair key(*bucket, node.phase);
      const auto last = open.find(node.round);
      if (last == open.end() || last->second.key != key || !fits(groups_[last->second.group.index()], node)) {
        open[node.round] = {key, GroupId(groups_.size())};
        groups_.push_back({{}, NodeId(i)});
      }
      const GroupId id = open[node.round].group;
      Group& group = groups_[id.index()];
      group.members.push_back(NodeId(i));
      if (lane != Lane::gather) group.place = NodeId(i);
      group_of_[i] = id;
    }
  }

  /// Whether the node may join the group: it has the group's dtype, its unit is not in the group yet, and it
  /// adds to a sum if and only if the others do.
  bool fits(const Group& group, const Node& node) const {
    const Node& first = before_.node(group.members[0]);
    if (ir::adds_to_sum(first) != ir::adds_to_sum(node) || dtype(first) != dtype(node)) return false;
    return std::none_of(group.members.begin(), group.members.end(), [&](NodeId m) {
      return before_.value(before_.node(m).outputs.front()).unit == before_.value(node.outputs.front()).unit;
    });
  }
  DType dtype(const Node& node) const { return before_.value(ir::member_input(node, 0)).type.dtype; }

  void emit(NodeId id) {
    if (emitted_[id.index()]) return;
    emitted_[id.index()] = true;
    after_.add_node(before_.node(id));
  }

  void emit_group(const Group& group) {
    Node node = before_.node(group.place);
    node.inputs.clear();
    node.outputs.clear();
    for (const ir::In operand : {ir::operand::collective::vector, ir::operand::collective::so_far})
      for (const NodeId member : group.members) {
        if (!before_.node(member).has(operand)) continue;
        const ValueId input = before_.node(member).in(operand);
        if (const NodeId producer = before_.value(input).producer; before_.node(producer).op == Op::state)
          emit(producer);  // this may be the shard of a member that comes later in the program
        node.inputs.push_back(input);
      }
    for (const NodeId member : group.members) node.outputs.push_back(before_.node(member).outputs.front());
    if (group.members.size() > 1)
      node.module =
          before_.node(group.members.front()).module + ".." + before_.node(group.members.back()).module;
    after_.add_node(std::move(node));
  }

  const ir::Graph& before_;
  ir::Graph after_;
  const Buckets& buckets_;
  std::vector<Group> groups_;
  std::vector<GroupId> group_of_;  ///< the group of each node; invalid: none
  std::vector<bool> emitted_;
};

}  // namespace

bool is_parameter_gather(const ir::Node& node) {
  return node.op == ir::Op::all_gather && node.lane == Lane::gather && node.phase != ir::Phase::update;
}

std::vector<int> buckets_by_path(const std::vector<Unit>& units, const std::vector<std::string>& patterns) {
  std::vector<int> buckets;
  std::vector<std::string> names;  // the names of the buckets
  for (const Unit& unit : units) {
    std::string name = unit.path + "!";  // no pattern matches this name: the unit gets a bucket of its own
    for (const std::string& pattern : patterns)
      if (const auto part = matched_part(pattern, unit.path)) {
        name = *part;
        break;
      }
    const auto known = std::find(names.begin(), names.end(), name);
    buckets.push_back(static_cast<int>(known - names.begin()));
    if (known == names.end()) names.push_back(name);
  }
  return buckets;
}

ir::Graph bucket(const ir::Graph& graph, const Buckets& buckets) {
  return BucketPass(graph, buckets).run();
}

}  // namespace weft::passes
