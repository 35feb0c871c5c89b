// The pass shard: places values over the mesh, and inserts the collectives.
#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "ops/builder.hpp"
#include "ops/shapes.hpp"
#include "passes/collectives.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Attr;
using ir::Node;
using ir::Op;
using ir::Phase;
using ir::Placement;
using ir::Placements;
using ir::Role;
using ir::ValueId;
using namespace ir::operand;

class Shard {
 public:
  Shard(const ir::Graph& before, const ShardOptions& options)
      : before_(before),
        after_(before.without_nodes()),
        options_(options),
        axis_(before.mesh().axis(data_axis)),
        ranks_(before.mesh().size(axis_)),
        replicas_(before.mesh().size(replica_axis)),
        pipe_ranks_(before.mesh().size(pipe_axis)) {
    if (replicas_ > 1) replica_axis_ = before.mesh().axis(replica_axis);
    if (pipe_ranks_ > 1) pipe_axis_ = before.mesh().axis(pipe_axis);
    rounds_ = before.rounds();
  }

  ir::Graph run() {
    for (std::size_t i = 0; i < after_.storages().size(); ++i) place(after_.storage(ir::StorageId(i)));
    for (const Node& node : before_.nodes()) {
      if (!pending_.empty() && (node.phase != Phase::backward || !take_turns(node.round, pending_round_)))
        reduce_pending();
      convert(node);
    }
    reduce_pending();
    return std::move(after_);
  }

 private:
  /// Whether the rounds are one, or two that take turns.
  bool take_turns(int round, int other) const {
    return options_.alternate ? round / 2 == other / 2 : round == other;
  }

  // --- Placements

  /// The placement of state: alike on all ranks that have the same place on the data axis.
  Placements over_axis(Placement p) const {
    Placements placements(before_.mesh().axes().size());
    placements[static_cast<std::size_t>(axis_)] = p;
    return placements;
  }
  /// The placement of what is made from a rank's microbatches: every rank that shares the batch has another
  /// part, or another term. The stages of a pipe have other values altogether, what a tensor axis cuts is cut
  /// already, and the groups of the data axis have the ranks of the context axis in them.
  Placements over_batch(Placement p) const {
    Placements placements(before_.mesh().axes().size());
    for (std::size_t axis = 0; axis < placements.size(); ++axis)
      if (static_cast<int>(axis) == axis_ || static_cast<int>(axis) == replica_axis_) placements[axis] = p;
    return placements;
  }
  /// The placement of a term of a sum over the batch. Over axes with a single rank the sum is complete.
  Placements term() const {
    Placements placements = over_batch(ir::partial);
    for (std::size_t axis = 0; axis < placements.size(); ++axis)
      if (before_.mesh().size(static_cast<int>(axis)) == 1) placements[axis] = ir::replicate;
    return placements;
  }
  /// The placement of a gradient's sum over the ranks of one replica.
  Placements sum_of_replica() const {
    Placements placements = over_axis(ranks_ > 1 ? ir::shard(0) : ir::replicate);
    if (replicas_ > 1) placements[static_cast<std::size_t>(replica_axis_)] = ir::partial;
    return placements;
  }
  const Placement& placement(ValueId id) const {
    static constexpr Placement whole{};
    const auto& list = after_.value(id).placement;
    return list.empty() ? whole : list[static_cast<std::size_t>(axis_)];
  }
  bool is_cut(ValueId id) const { return placement(id).kind == Placement::Kind::shard; }
  void set(ValueId id, Placements p) { after_.value(id).placement = std::move(p); }

  bool keeps_parameters_whole() const { return options_.mode != ShardMode::fsdp; }

  bool state_is_cut(const ir::Storage& s) const {
    switch (s.role) {
      case Role::input: return s.type.shape.size() == 2;  // tokens, targets, positions; not the step block
      case Role::gradient: return true;
      case Role::exp_avg:
      case Role::exp_avg_sq: return options_.mode != ShardMode::ddp;
      case Role::parameter: return options_.mode == ShardMode::fsdp;
      case Role::master:
        return options_.mode == ShardMode::fsdp || (options_.mode != ShardMode::ddp && is_narrower());
      case Role::constant: return false;
      case Role::report: return s.type.shape.size() == 3;  // logits
    }
    return false;
  }
  /// Whether parameters are read in a narrower type than their masters', which forward then reads of norms at
  /// most. All stages of a pipe answer alike: a unit in Float8 has no parameters that are kept, and neither
  /// do norms.
  bool is_narrower() const {
    for (const ir::Storage& s : after_.storages())
      if (s.role == Role::parameter) return true;
    for (const Unit& unit : after_.units())
      if (unit.float8 || unit.f32_norms) return true;
    return false;
  }
  void place(ir::Storage& s) {
    const bool batch = !s.unit.valid();
    const Placement p = state_is_cut(s) ? ir::shard(0) : ir::replicate;
    s.placement = batch ? over_batch(p) : over_axis(p);
  }

  // --- Nodes

  void convert(Node node) {
    switch (node.op) {
      case Op::state:
        set(node.out(single::to), after_.storage(after_.value(node.out(single::to)).home).placement);
        after_.add_node(std::move(node));
        return;
      case Op::view:
        views_[node.out(single::to)] = std::move(node);
        return;  // emitted where it is used: it may need a gather
      case Op::accumulate: reduce(std::move(node)); return;
      case Op::sum_squares:
        propagate(std::move(node), over_axis(ranks_ > 1 ? ir::partial : ir::replicate));
        return;
      case Op::clip_scale: clip_scale(std::move(node)); return;
      case Op::reduce_totals: reduce_totals(std::move(node)); return;
      case Op::amax: amax(std::move(node)); return;
      case Op::float8_scales: float8_scales(std::move(node)); return;
      case Op::quantize_unit: propagate_like(std::move(node), quantize_unit::master); return;
      case Op::adamw: adamw(std::move(node)); return;
      case Op::join: propagate(std::move(node), term()); return;
      case Op::recv: recv(std::move(node)); return;
      case Op::all_reduce: sum_over_tensor(std::move(node)); return;
      default: compute(std::move(node)); return;
    }
  }

  /// Activations and their gradients are cut over the batch, and a twin's sum of gradients like the own.
  void recv(Node node) {
    const bool unit = after_.value(node.out(recv::x)).unit.valid();
    propagate(std::move(node),
              unit ? over_axis(ranks_ > 1 ? ir::shard(0) : ir::replicate) : over_batch(ir::shard(0)));
  }

  /// A sum of the update over ranks of the tensor axis lies like its terms.
  void sum_over_tensor(Node node) {
    if (after_.value(node.out(single::to)).unit.valid() && options_.reduction == ReduceOrder::native)
      node.attributes.set(Attr::native, 1);
    propagate_like(std::move(node), single::from);
  }

  void propagate(Node node, const Placements& p) {
    for (ValueId output : node.outputs) set(output, p);
    after_.add_node(std::move(node));
  }

  /// The results lie like an input.
  void propagate_like(Node node, ir::In input) {
    const Placements as_input = after_.value(node.in(input)).placement;
    propagate(std::move(node), as_input);
  }

  void compute(Node node) {
    for (ValueId& input : node.inputs) input = use_view(node, input);
    if (node.op == Op::add && after_.value(node.out(add::sum)).unit.valid()) {  // of two twins' gradients
      propagate_like(std::move(node), add::a);
      return;
    }
    bool cut = false;
    for (ValueId input : node.inputs) cut = cut || is_cut(input);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const bool sums = ops::batch_rule(node.op, i) == ops::BatchRule::sums;
      set(node.outputs[i], over_batch(!cut ? ir::replicate : sums ? ir::partial : ir::shard(0)));
    }
    if (node.op == Op::add && placement(node.in(add::a)).kind == Placement::Kind::partial)
      set(node.out(add::sum), over_batch(ir::partial));
    after_.add_node(std::move(node));
  }

  // --- Weights in Float8 are made of masters, of which a rank may have a slice

  void amax(Node node) {
    const bool of_slice = is_cut(node.in(amax::master)) && ranks_ > 1;
    propagate(std::move(node), over_axis(of_slice ? ir::partial : ir::replicate));
  }
  void float8_scales(Node node) {
    ValueId& largest = node.in(float8_scales::largest);
    if (placement(largest).kind == Placement::Kind::partial)
      largest = sum_over(axis_, node, largest, "float8.amax.all", {{Attr::largest, 1}});
    propagate(std::move(node), over_axis(ir::replicate));
  }

  // --- Parameters are gathered before use

  /// The value that `node` reads for parameter view `id`, gathered and viewed as needed. A value that is no
  /// parameter view is returned as it is.
  ValueId use_view(const Node& node, ValueId id) {
    const auto it = views_.find(id);
    if (it == views_.end()) return id;
    const ValueId whole = gathered(node, it->second.in(single::from));
    const auto [known, first] = view_of_.emplace(std::pair(whole, id), id);
    if (!first) return known->second;
    Node view = it->second;
    view.in(single::from) = whole;
    view.phase = node.phase;
    view.round = node.round;
    view.chunk = node.chunk;
    if (after_.value(id).producer.valid()) {  // an earlier gather has this view: a new value is needed
      ir::Value copy = after_.value(id);
      known->second = after_.add_value(std::move(copy));
    }
    view.outputs = {known->second};
    set(known->second, over_axis(ir::replicate));
    after_.add_node(std::move(view));
    return known->second;
  }

  /// The gathered copy of a unit. It serves until another unit is gathered, and the round that takes turns
  /// with its own until that is as far (but for a table, of which each round reads rows); the copy of a unit
  /// that is kept serves from forward to the backward of the same round, and in a stage of a pipe, whose
  /// rounds overlap, the whole step. What all layers read serves the whole step, too.
  ValueId gathered(const Node& node, ValueId state) {
    if (!is_cut(state) || ranks_ == 1) return state;
    const ir::UnitId unit = after_.value(state).unit;
    Gathered& copy = copies_[unit];
    // What the modes that keep parameters whole have in Float8 is made of cut masters, and gathered once.
    const bool repeated = after_.unit(unit).lasting || keeps_parameters_whole();
    const bool kept = copy.value.valid() &&
                      (repeated || (stays_gathered(unit, options_.keep_units, after_.units().size()) &&
                                    (pipe_ranks_ > 1 || take_turns(copy.round, node.round))));
    const bool own_turn = copy.round == node.round;
    // A table would else be held from the embedding of one round to the head of the other, through all
    // layers.
    const bool of_other = copy.value.valid() && !own_turn && !copy.of_rows && copy.phase == node.phase &&
                          take_turns(copy.round, node.round);
    const bool own_rows = options_.alternate && node.op == Op::embedding && !own_turn;
    ir::UnitId& last_gathered = last_gathered_[options_.alternate ? node.round % 2 : 0];
    if (!own_rows && (kept || (of_other || last_gathered == unit))) {
      if (own_turn) copy.phase = node.phase;
      return copy.value;
    }
    copy = {all_gather(node, state, after_.unit(unit).path + ".full"), node.round, node.phase,
            node.op == Op::embedding};
    if (!repeated) last_gathered = unit;
    return copy.value;
  }

  ValueId all_gather(const Node& place, ValueId input, std::string name, ir::StorageId home = {}) {
    ir::Value whole = after_.value(input);
    whole.name = std::move(name);
    whole.placement = over_axis(ir::replicate);
    whole.home = home;
    return collective(Op::all_gather, Lane::gather, place, input, std::move(whole));
  }

  ValueId collective(Op op, Lane lane, const Node& place, ValueId input, ir::Value output,
                     ir::Attributes attributes = {}) {
    return collective(op, lane, place, input, after_.add_value(std::move(output)), std::move(attributes));
  }
  ValueId collective(Op op, Lane lane, const Node& place, ValueId input, ValueId output,
                     ir::Attributes attributes) {
    Node node;
    node.op = op;
    node.lane = lane;
    node.inputs = {input};
    node.outputs = {output};
    node.attributes = std::move(attributes);
    node.attributes.set(Attr::axis, axis_of(lane));
    node.phase = place.phase;
    node.round = place.round;
    node.chunk = place.chunk;
    const ir::Value& value = after_.value(output);
    node.module = value.unit.valid() ? after_.unit(value.unit).path : place.module;
    if (op == Op::all_reduce && value.unit.valid() && options_.reduction == ReduceOrder::native)
      node.attributes.set(Attr::native, 1);
    after_.add_node(std::move(node));
    return output;
  }

  // --- Gradients

  void reduce(Node node) {
    if (ranks_ == 1) {  // the sum is added up in place
      emit_sum(std::move(node));
      return;
    }
    if (options_.accumulation == Accumulation::once && rounds_ > 1) {
      node = accumulate_here(std::move(node));
      if (node.round + 1 < rounds_) return;
    }
    if (options_.mode != ShardMode::zero1) {
      emit_reduce(std::move(node));
      return;
    }
    pending_round_ = node.round;
    pending_.push_back(std::move(node));
  }
  /// Adds the round's gradient to the sum of this rank's rounds. Returns the reduction of the sum, for the
  /// last round.
  Node accumulate_here(Node node) {
    const ValueId sum = node.out(accumulate::sum);
    ir::Value local = after_.value(sum);
    local.name += ".local";
    local.home = {};
    const ValueId local_sum = after_.add_value(std::move(local));
    Node here = node;
    here.outputs = {local_sum};
    if (here.has(accumulate::so_far))
      here.in(accumulate::so_far) = local_sums_.at(here.in(accumulate::so_far));
    set(local_sum, term());
    local_sums_[sum] = local_sum;
    after_.add_node(std::move(here));
    node.inputs = {local_sum};
    return node;
  }
  void reduce_pending() {
    for (Node& node : pending_) emit_reduce(std::move(node));
    pending_.clear();
  }
  void emit_reduce(Node node) {
    node.op = Op::reduce_scatter;
    node.lane = Lane::reduce;
    node.attributes.set(Attr::axis, axis_);
    if (options_.reduction == ReduceOrder::native) node.attributes.set(Attr::native, 1);
    emit_sum(std::move(node));
  }
  /// Emits a node that adds a round's gradient to the sum of this replica; after the last round the sums of
  /// all replicas are added up.
  void emit_sum(Node node) {
    const ValueId sum = node.outputs.front();
    const bool over_replicas = replicas_ > 1 && node.round + 1 == rounds_;
    if (over_replicas) {
      ir::Value own = after_.value(sum);
      own.name += ".replica";
      node.outputs = {after_.add_value(std::move(own))};
    }
    const ValueId own_sum = node.outputs.front();
    set(own_sum, sum_of_replica());
    const Node place = node;
    after_.add_node(std::move(node));
    if (!over_replicas) return;
    set(sum, over_axis(placement(own_sum)));
    collective(Op::all_reduce, Lane::replica, place, own_sum, sum, {});
  }

  // --- Update

  /// The axis of a lane's collectives.
  int axis_of(Lane lane) const {
    return lane == Lane::replica ? replica_axis_ : lane == Lane::pipe ? pipe_axis_ : axis_;
  }
  Lane lane_of(int axis) const {
    return axis == replica_axis_ ? Lane::replica : axis == pipe_axis_ ? Lane::pipe : Lane::reduce;
  }

  void clip_scale(Node node) {
    ValueId& squares = node.in(clip_scale::squares);
    if (ranks_ > 1) squares = sum_over(axis_, node, squares, "clip.squares.sum");
    if (pipe_ranks_ > 1) squares = sum_over(pipe_axis_, node, squares, "clip.squares.of_stages");
    propagate(std::move(node), over_axis(ir::replicate));
  }
  ValueId sum_over(int axis, const Node& place, ValueId term, std::string name,
                   ir::Attributes attributes = {}) {
    ir::Value sum = after_.value(term);
    sum.name = std::move(name);
    sum.placement = over_axis(ir::replicate);
    return collective(Op::all_reduce, lane_of(axis), place, term, std::move(sum), std::move(attributes));
  }

  /// Gathers the totals axis by axis, so that they stand in the order of the batch ranks (Mesh::batch_rank),
  /// whichever axis the deck names first. Stages without the loss have zeros, which are terms like the
  /// others'.
  void reduce_totals(Node node) {
    ValueId& totals = node.in(reduce_totals::rounds);
    set(totals, term());
    int gathered = 1;
    for (const int axis : {axis_, replica_axis_, pipe_axis_}) {
      const int ranks = axis < 0 ? 1 : before_.mesh().size(axis);
      if (ranks == 1) continue;
      ir::Value all = after_.value(totals);
      all.name = axis == axis_ ? "loss.ranks" : axis == pipe_axis_ ? "loss.stages" : "loss.replicas";
      if (gathered == 1) all.type.shape.insert(all.type.shape.begin(), 1);
      all.type.shape[0] *= ranks;
      all.placement[static_cast<std::size_t>(axis)] = ir::replicate;
      totals = collective(Op::all_gather, lane_of(axis), node, totals, std::move(all));
      gathered *= ranks;
    }
    propagate(std::move(node), over_axis(ir::replicate));
  }

  void adamw(Node node) {
    const bool whole = ranks_ == 1 || options_.mode == ShardMode::ddp;
    ValueId &gradient = node.in(adamw::gradient), &master = node.in(adamw::master);
    if (ranks_ > 1 && options_.mode == ShardMode::ddp)
      gradient = all_gather(node, gradient, after_.unit(after_.value(gradient).unit).path + ".sum.full");
    if (!whole && !is_cut(master)) master = rank_slice(node, master);
    for (ValueId output : node.outputs) set(output, over_axis(whole ? ir::replicate : ir::shard(0)));
    const std::vector<ValueId> outputs = node.outputs;
    const Node place = node;
    after_.add_node(std::move(node));
    if (whole || !keeps_parameters_whole()) return;
    for (ValueId output : outputs) {  // the storage that forward reads is whole: gather it in place
      const ir::StorageId home = after_.value(output).home;
      if (after_.storage(home).placement[static_cast<std::size_t>(axis_)] == ir::replicate)
        all_gather(place, output, after_.value(output).name + ".full", home);
    }
  }

  ValueId rank_slice(const Node& place, ValueId whole) {
    Node node;
    node.op = Op::rank_slice;
    node.inputs = {whole};
    ir::Value slice = after_.value(whole);
    slice.name += ".slice";
    slice.placement = over_axis(ir::shard(0));
    const ValueId result = after_.add_value(std::move(slice));
    node.outputs = {result};
    node.phase = place.phase;
    node.round = place.round;
    node.module = place.module;
    after_.add_node(std::move(node));
    return result;
  }

  struct Gathered {
    ValueId value;
    int round = 0;
    Phase phase = Phase::forward;  ///< in which its round read it last
    bool of_rows = false;          ///< an embedding reads rows of it
  };

  const ir::Graph& before_;
  ir::Graph after_;
  ShardOptions options_;
  int axis_;
  int ranks_;
  int replica_axis_ = -1;
  int replicas_;
  int pipe_axis_ = -1;
  int pipe_ranks_;
  int rounds_ = 1;
  std::map<ValueId, Node> views_;                           ///< parameter views of the unsharded graph
  std::map<std::pair<ValueId, ValueId>, ValueId> view_of_;  ///< (whole unit, view) -> value
  std::map<ir::UnitId, Gathered> copies_;                   ///< the newest gathered copy of a unit
  std::array<ir::UnitId, 2> last_gathered_;                 ///< of either round that takes turns
  std::vector<Node> pending_;  ///< zero1: reductions that wait for the round's end
  int pending_round_ = 0;
  /// With Accumulation::once, this rank's sum by the sum over all ranks.
  std::map<ValueId, ValueId> local_sums_;
};

}  // namespace

ir::Graph shard(const ir::Graph& graph, const ShardOptions& options) {
  return Shard(graph, options).run();
}

}  // namespace weft::passes
