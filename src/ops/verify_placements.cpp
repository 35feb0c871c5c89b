#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ops/shapes.hpp"
#include "ops/verify.hpp"

namespace weft::ops {
namespace {

using ir::Node;
using ir::Op;
using ir::Placement;
using ir::ValueId;
using Kind = ir::Placement::Kind;
using namespace ir::operand;

/// Follows one axis of the mesh.
class PlacementRules {
 public:
  PlacementRules(const ir::Graph& graph, int axis) : graph_(graph), axis_(axis) {}

  void run() {
    std::vector<ValueId> last(graph_.storages().size());
    for (const Node& node : graph_.nodes()) {
      check(node);
      if (node.op == Op::view || node.op == Op::rank_slice) continue;  // these name a part of a storage
      for (const ValueId output : node.outputs)
        if (const ir::StorageId home = graph_.value(output).home; home.valid()) last[home.index()] = output;
    }
    for (const ValueId id : last) {
      if (!id.valid()) continue;
      node_ = &graph_.node(graph_.value(id).producer);
      require(lies_like_its_storage(id), "leaves a storage otherwise than that lies");
    }
  }

 private:
  void check(const Node& node) {
    node_ = &node;
    if (ir::communicates(node.op)) {
      check_communication();
      return;
    }
    switch (node.op) {
      case Op::zeros: return;  // they are a term of any sum, and so may lie in any way
      case Op::state:
        require(lies_like_its_storage(node.out(single::to)), "does not lie like its storage");
        return;
      case Op::rank_slice: check_slice(); return;
      case Op::accumulate:
      case Op::add:
      case Op::join: check_sum(); return;
      case Op::sum_squares:
      case Op::amax: check_reading_of_unit(); return;
      case Op::adamw: check_adamw(); return;
      default: check_computation(); return;
    }
  }

  [[noreturn]] void fail(const std::string& problem) const {
    const std::string output = node_->outputs.empty() ? "" : graph_.value(node_->outputs.front()).name;
    throw std::logic_error(fmt::format("graph {}: node {} = {}: over the axis {} it {}", graph_.name(),
                                       output, name_of(node_->op), name(), problem));
  }
  void require(bool holds, const char* problem) const {
    if (!holds) fail(problem);
  }
  const std::string& name() const { return graph_.mesh().axes()[static_cast<std::size_t>(axis_)].name; }

  Placement at_axis(const ir::Placements& placements) const {
    return placements.empty() ? ir::replicate : placements[static_cast<std::size_t>(axis_)];
  }
  Placement of(ValueId id) const { return at_axis(graph_.value(id).placement); }
  bool is(Kind kind, ValueId id) const { return of(id).kind == kind; }
  bool lies_like_its_storage(ValueId id) const {
    return of(id) == at_axis(graph_.storage(graph_.value(id).home).placement);
  }
  bool is_zeros(ValueId id) const { return graph_.node(graph_.value(id).producer).op == Op::zeros; }

  /// A collective over this axis completes or moves something; one over another axis, or a message, leaves
  /// the placement over this one as it is.
  void check_communication() const {
    const Node& node = *node_;
    const bool over_this = ir::is_collective(node.op) && node.attributes.integer(ir::Attr::axis) == axis_;
    for (std::size_t i = 0; i < node.outputs.size() && ir::is_collective(node.op); ++i) {
      const ValueId in = ir::member_input(node, i), out = node.outputs[i];
      if (!over_this) {
        require(of(in) == of(out), "changes a placement, and communicates over another");
        continue;
      }
      switch (node.op) {
        case Op::all_gather:
          // Terms may be gathered, too, one behind the other, to be added in an order.
          require(is(Kind::shard, in) || gathers_terms(in, out), "gathers what is no part");
          require(is(Kind::replicate, out), "makes what all ranks have, and it does not lie so");
          break;
        case Op::reduce_scatter:
          require(is(Kind::partial, in), "adds what are no terms");
          require(is(Kind::shard, out), "makes parts, and they do not lie so");
          break;
        case Op::all_reduce:
          require(is(Kind::partial, in), "adds what are no terms");
          require(is(Kind::replicate, out), "makes what all ranks have, and it does not lie so");
          break;
        default: break;
      }
      if (ir::adds_to_sum(node))
        require(of(ir::member_input(node, i, collective::so_far)) == of(out), "adds to what lies otherwise");
    }
  }
  bool gathers_terms(ValueId in, ValueId out) const {
    return is(Kind::partial, in) &&
           element_count(graph_.value(out).type.shape) ==
               element_count(graph_.value(in).type.shape) * graph_.mesh().size(axis_);
  }

  /// A rank's slice is cut over the axis data.
  void check_slice() const {
    const ValueId whole = node_->in(single::from), slice = node_->out(single::to);
    if (name() != data_axis) {
      require(of(whole) == of(slice), "changes a placement, and cuts over another axis");
      return;
    }
    require(is(Kind::replicate, whole), "cuts what no rank has whole");
    require(is(Kind::shard, slice), "makes a part, and it does not lie so");
  }

  /// A sum lies like its terms: a value that all ranks have would count once for each of them in a sum over
  /// the ranks.
  void check_sum() const {
    for (const ValueId input : node_->inputs)
      require(of(input) == of(node_->outputs.front()) || is_zeros(input), "adds values that lie differently");
  }

  /// What is made of a whole unit is whole, and of a part of it a term.
  void check_reading_of_unit() const {
    const Node& node = *node_;
    const ValueId unit = node.in(sum_squares::gradient), result = node.out(sum_squares::sum);
    require(!is(Kind::partial, unit), "reads a sum whose terms have not been added");
    require(of(result).kind == (is(Kind::shard, unit) ? Kind::partial : Kind::replicate),
            "makes a term or a sum that does not lie like one");
    if (node.has(sum_squares::so_far)) {
      const ValueId so_far = node.in(sum_squares::so_far);
      require(of(so_far) == of(result) || is_zeros(so_far), "adds values that lie differently");
    }
  }
  static_assert(amax::master.at == sum_squares::gradient.at && amax::so_far.at == sum_squares::so_far.at);

  void check_adamw() const {
    const Node& node = *node_;
    const Placement gradient = of(node.in(adamw::gradient));
    require(gradient.kind != Kind::partial, "reads a sum whose terms have not been added");
    for (const ir::In state : {adamw::master, adamw::exp_avg, adamw::exp_avg_sq})
      require(of(node.in(state)) == gradient, "has state that lies otherwise than the gradient");
    for (const ValueId output : node.outputs)
      require(of(output) == gradient, "makes state that lies otherwise than the gradient");
    for (const ir::In whole : {adamw::scale, adamw::step})
      require(is(Kind::replicate, node.in(whole)), "reads a scale or a step that not all ranks have");
  }

  /// What a node makes of rows of the batch are rows or, if it adds over them, terms (ops::batch_rule).
  void check_computation() const {
    bool cut = false;
    for (const ValueId input : node_->inputs) {
      require(!is(Kind::partial, input), "reads a sum whose terms have not been added");
      cut = cut || is(Kind::shard, input);
    }
    const bool of_batch = has_shape_rule(node_->op) && !graph_.value(node_->outputs.front()).unit.valid();
    for (std::size_t i = 0; i < node_->outputs.size(); ++i) {
      const bool sums = of_batch && batch_rule(node_->op, i) == BatchRule::sums;
      const Kind expected = !cut ? Kind::replicate : sums ? Kind::partial : Kind::shard;
      if (!is(expected, node_->outputs[i]))
        fail(fmt::format("makes {}, which does not lie so", text_of(expected)));
    }
  }
  static std::string_view text_of(Kind kind) {
    switch (kind) {
      case Kind::replicate: return "what all ranks have";
      case Kind::shard: return "parts";
      case Kind::partial: return "terms of a sum";
    }
    return "?";
  }

  const ir::Graph& graph_;
  int axis_;
  const Node* node_ = nullptr;
};

}  // namespace

void verify_placements(const ir::Graph& graph) {
  const auto& axes = graph.mesh().axes();
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const bool placed = axes[axis].name == data_axis || axes[axis].name == replica_axis;
    if (!placed || graph.mesh().size(static_cast<int>(axis)) == 1) continue;
    PlacementRules(graph, static_cast<int>(axis)).run();
  }
}

}  // namespace weft::ops
