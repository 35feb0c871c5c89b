// The pass fuse: makes one matmul of several that read one operand.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/builder.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Attr;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;
using namespace ir::operand;

/// Matmuls of one operand by weights that stand one behind the other, and the nodes that must change with
/// them.
struct Group {
  std::vector<NodeId> views, matmuls;
  std::vector<NodeId> gone;  ///< other nodes that the fused matmul makes needless
  NodeId reader;             ///< the swiglu or attention in which the fused result is taken apart
};

/// The name of a fused value: {"layers.0.attn.q#1", "layers.0.attn.k#1"} give "layers.0.attn.q_k#1".
std::string joined_name(const std::vector<std::string>& names) {
  const std::size_t path = names[0].rfind('.') + 1, round = std::min(names[0].find('#'), names[0].size());
  std::vector<std::string> last;
  for (const std::string& name : names)
    last.push_back(name.substr(name.rfind('.') + 1, name.find('#') - name.rfind('.') - 1));
  return fmt::format("{}{}{}", names[0].substr(0, path), fmt::join(last, "_"), names[0].substr(round));
}

class FusePass {
 public:
  explicit FusePass(const ir::Graph& before)
      : before_(before), after_(before.without_nodes()), uses_(before.values().size(), 0) {
    for (const Node& node : before.nodes())
      for (ValueId input : node.inputs) ++uses_[input.index()];
  }

  ir::Graph run() {
    for (std::size_t i = 0; i < before_.nodes().size(); ++i) {
      const Node& node = before_.nodes()[i];
      std::optional<Group> group;
      if (node.op == Op::swiglu && node.has(swiglu::up)) group = gate_and_up(node);
      if (node.op == Op::attention) group = queries_keys_and_values(node);
      if (!group) continue;
      group->reader = NodeId(i);
      groups_.push_back(*std::move(group));
    }
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      for (const auto* list : {&groups_[i].views, &groups_[i].matmuls, &groups_[i].gone})
        for (const NodeId node : *list) group_of_[node] = i;
      group_of_[groups_[i].reader] = i;
    }
    for (std::size_t i = 0; i < before_.nodes().size(); ++i) emit(NodeId(i));
    return std::move(after_);
  }

 private:
  // --- What can be fused

  NodeId producer(ValueId id) const { return before_.value(id).producer; }
  /// Whether exactly one node reads the value, and nobody outside the graph does.
  bool is_private(ValueId id) const { return uses_[id.index()] == 1 && !before_.value(id).home.valid(); }

  std::optional<Group> gate_and_up(const Node& node) const {
    return side_by_side({node.in(swiglu::gate), node.in(swiglu::up)});
  }

  std::optional<Group> queries_keys_and_values(const Node& node) const {
    const ValueId q = node.in(attention::q), k = node.in(attention::k), v = node.in(attention::v);
    const Node &q_rope = before_.node(producer(q)), &k_rope = before_.node(producer(k));
    if (q_rope.op != Op::rope || k_rope.op != Op::rope || !is_private(q) || !is_private(k))
      return std::nullopt;
    const bool alike = q_rope.attributes == k_rope.attributes &&
                       q_rope.in(rope::positions) == k_rope.in(rope::positions) &&
                       q_rope.in(rope::table) == k_rope.in(rope::table);
    if (!alike) return std::nullopt;
    std::optional<Group> group = side_by_side({q_rope.in(rope::x), k_rope.in(rope::x), v});
    if (group) group->gone = {producer(q), producer(k)};
    return group;
  }

  /// The matmuls that make `results`, if a single one could make all of them.
  std::optional<Group> side_by_side(const std::vector<ValueId>& results) const {
    Group group;
    for (const ValueId result : results) {
      if (!is_private(result) || before_.node(producer(result)).op != Op::matmul) return std::nullopt;
      const Node& product = before_.node(producer(result));
      const ValueId weight = product.in(matmul::w);
      if (!is_private(weight) || before_.node(producer(weight)).op != Op::view) return std::nullopt;
      const Node& view = before_.node(producer(weight));
      if (!group.views.empty()) {
        const Node& last = before_.node(group.views.back());
        const bool follows =
            view.in(single::from) == last.in(single::from) && offset(view) == offset(last) + elements(last);
        if (!follows || product.in(matmul::x) != before_.node(group.matmuls.back()).in(matmul::x))
          return std::nullopt;
      }
      group.matmuls.push_back(producer(result));
      group.views.push_back(producer(weight));
    }
    return group;
  }
  static std::int64_t offset(const Node& view) { return view.attributes.integer(Attr::offset); }
  std::int64_t elements(const Node& view) const {
    return element_count(before_.value(view.out(single::to)).type.shape);
  }

  // --- What stands in its place

  void emit(NodeId id) {
    const Node& node = before_.node(id);
    const auto it = group_of_.find(id);
    if (it == group_of_.end()) {
      after_.add_node(node);
      return;
    }
    const Group& group = groups_[it->second];
    if (id == group.reader)
      take_apart(node, group);
    else if (id == *std::min_element(group.views.begin(), group.views.end()))
      joined_.emplace(before_.node(group.views[0]).out(single::to), emit_joined(group.views));
    else if (id == *std::min_element(group.matmuls.begin(), group.matmuls.end()))
      joined_.emplace(before_.node(group.matmuls[0]).out(matmul::y), emit_joined(group.matmuls));
  }

  /// Emits one view or matmul in place of several. The results of matmuls then lie side by side, and weights
  /// one below the other.
  ValueId emit_joined(const std::vector<NodeId>& nodes) {
    Node fused = before_.node(nodes[0]);
    std::vector<std::string> names;
    const std::size_t dim = fused.op == Op::view ? 0 : 2;
    ir::Value value = before_.value(fused.outputs.front());
    value.type.shape[dim] = 0;
    for (const NodeId node : nodes) {
      const ir::Value& part = before_.value(before_.node(node).outputs.front());
      names.push_back(part.name);
      value.type.shape[dim] += part.type.shape[dim];
    }
    value.name = joined_name(names);
    value.producer = {};
    if (fused.op == Op::matmul) fused.in(matmul::w) = joined_.at(fused.in(matmul::w));
    const ValueId output = after_.add_value(std::move(value));
    fused.outputs = {output};
    after_.add_node(std::move(fused));
    return output;
  }

  void take_apart(Node reader, const Group& group) {
    const ValueId fused = joined_.at(before_.node(group.matmuls[0]).out(matmul::y));
    if (reader.op == Op::swiglu) {
      reader.inputs = {fused};
    } else {
      Node split = before_.node(group.gone[0]);
      split.op = Op::rope_split;
      split.in(rope_split::qkv) = fused;
      split.outputs = {reader.in(attention::q), reader.in(attention::k), reader.in(attention::v)};
      for (const Attr attr : {Attr::heads, Attr::kv_heads})
        split.attributes.set(attr, reader.attributes.real(attr));
      after_.add_node(std::move(split));
    }
    after_.add_node(std::move(reader));
  }

  const ir::Graph& before_;
  ir::Graph after_;
  std::vector<int> uses_;  ///< how often each value is read
  std::vector<Group> groups_;
  std::map<NodeId, std::size_t> group_of_;
  std::map<ValueId, ValueId> joined_;  ///< joined values, by the first of the values that each one stands for
};

}  // namespace

ir::Graph fuse(const ir::Graph& graph) {
  return FusePass(graph).run();
}

}  // namespace weft::passes
