// The pass update: appends gradient norm, clipping and AdamW.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/exact_sum.hpp"
#include "base/step_block.hpp"
#include "ops/builder.hpp"
#include "ops/storages.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Attr;
using ir::Op;
using ir::Role;
using ir::ValueId;
using namespace ir::operand;

class Update {
 public:
  Update(const ir::Graph& graph, const UpdateOptions& options)
      : graph_(graph), b_(graph_), options_(options) {}

  ir::Graph run() {
    collect();
    b_.at(ir::Phase::update, 0);
    for (std::size_t unit = 0; unit < graph_.units().size(); ++unit) {
      add_twin(ir::UnitId(unit));
      add_copies(ir::UnitId(unit));
    }
    const ValueId squares = square_sum();
    const ValueId scale = clip(squares, totals());
    const ValueId step =
        b_.state(graph_.add_storage({step_name, Role::input, {DType::u8, {sizeof(StepBlock)}}, {}, {}}));
    for (std::size_t unit = 0; unit < graph_.units().size(); ++unit) adamw(ir::UnitId(unit), scale, step);
    return std::move(graph_);
  }

 private:
  void collect() {
    sums_.resize(graph_.units().size());
    masters_.resize(graph_.units().size());
    int last_round = 0;
    for (const ir::Node& node : graph_.nodes()) last_round = std::max(last_round, node.round);
    rounds_ = last_round + 1;
    for (const ir::Node& node : graph_.nodes()) {
      if (node.op == Op::accumulate) {
        const ValueId sum = node.out(accumulate::sum);
        sums_[graph_.value(sum).unit.index()] = sum;
        if (node.round == last_round) completed_.push_back(sum);
      }
      if (node.op == Op::state)
        if (const ir::UnitId unit = graph_.value(node.out(single::to)).unit; unit.valid())
          masters_[unit.index()] = node.out(single::to);
      if (node.op == Op::cross_entropy) losses_.push_back(node.out(cross_entropy::totals));
    }
  }

  /// Adds the gradient of the twin to that of a unit which two stages have. Each sends its own to the other,
  /// over the channels of the pipe's ring, and both get the same sum.
  void add_twin(ir::UnitId id) {
    const Unit& unit = graph_.unit(id);
    if (unit.twin < 0) return;
    ValueId& sum = sums_[id.index()];
    const ir::Value own = graph_.value(sum);
    // The copy is on the pipe's last rank, and the ring goes on from there to the first.
    const Lane out = unit.copy ? Lane::to_next : Lane::to_previous,
               in = unit.copy ? Lane::from_next : Lane::from_previous;
    b_.send(unit.path, sum, unit.twin, out);
    const ValueId other = b_.recv(unit.path, own.type, unit.path + ".sum.twin", unit.twin, in);
    graph_.value(other).unit = id;
    const ValueId both = b_.emit_one(Op::add, unit.path, {sum, other}, unit.path + ".sum.both");
    graph_.value(both).home = own.home;
    graph_.value(both).unit = id;
    std::replace(completed_.begin(), completed_.end(), sum, both);
    sum = both;
  }

  /// Adds up the gradient of a unit of which neighbours on the tensor axis have copies: each of them has the
  /// terms of its own rows or heads.
  void add_copies(ir::UnitId id) {
    const Unit& unit = graph_.unit(id);
    if (unit.copies == 1) return;
    ValueId& sum = sums_[id.index()];
    const ValueId all = b_.sum_of_copies(sum, unit.path + ".sum.copies");
    std::replace(completed_.begin(), completed_.end(), sum, all);
    sum = all;
  }

  /// The sum of squares of all gradients. They are taken in the order in which their sums are complete: the
  /// gradients of the first layers are still on their way when backward ends. The accumulator is exact, so
  /// neither this order nor the cut over ranks changes the bits.
  ValueId square_sum() {
    std::erase_if(completed_, [this](ValueId sum) { return graph_.unit(graph_.value(sum).unit).copy; });
    ValueId limbs = b_.zeros("clip", {DType::i64, {exact_limbs}}, "clip.zero");
    for (const ValueId sum : completed_) {
      ir::Attributes attributes;
      // Neighbours that have copies of a unit have the same gradient, and the first of them counts it.
      if (const int copies = graph_.unit(graph_.value(sum).unit).copies; copies > 1)
        attributes.set(Attr::copies, copies);
      limbs = b_.emit_one(Op::sum_squares, "clip", {sum, limbs}, "clip.squares", std::move(attributes));
    }
    if (graph_.mesh().size(tensor_axis) > 1)
      limbs = b_.over_axis(Op::all_reduce, {graph_.mesh().axis(tensor_axis), Lane::tensor}, "clip", limbs,
                           graph_.value(limbs).type, "clip.squares.tensor");
    return limbs;
  }

  /// The loss sums and token counts of all rounds: side by side at first, and then added in microbatch order.
  /// A stage without the loss has zeros instead, which change no sum.
  ValueId totals() {
    const ir::Type type{DType::f64, {rounds_, 2}};
    const ValueId of_rounds = losses_.empty() ? b_.zeros("loss", type, "loss.rounds") : joined(type);
    const ValueId sum = b_.emit_one(Op::reduce_totals, "loss", {of_rounds}, "loss.sum");
    graph_.value(sum).home =
        graph_.add_storage({ops::totals_name, Role::report, graph_.value(sum).type, {}, {}});
    return sum;
  }

  ValueId joined(const ir::Type& type) {
    ir::Value all;
    all.name = "loss.rounds";
    all.type = type;
    ir::Node join;
    join.op = Op::join;
    join.inputs = losses_;
    join.outputs = {graph_.add_value(std::move(all))};
    join.phase = ir::Phase::update;
    join.module = "loss";
    const ValueId result = join.out(single::to);
    graph_.add_node(std::move(join));
    return result;
  }

  ValueId clip(ValueId limbs, ValueId totals) {
    const ValueId scale =
        b_.emit_one(Op::clip_scale, "clip", {limbs, totals}, "clip.scale", {{Attr::max_norm, options_.clip}});
    graph_.value(scale).home =
        graph_.add_storage({report_name, Role::report, graph_.value(scale).type, {}, {}});
    return scale;
  }

  ValueId moment(Role role, ir::UnitId id) {
    const Unit& unit = graph_.unit(id);
    return b_.state(
        graph_.add_storage({ops::storage_name(role, unit), role, {DType::f32, {unit.elements}}, id, {}}));
  }

  void adamw(ir::UnitId id, ValueId scale, ValueId step) {
    const std::string path = graph_.unit(id).path;
    const std::vector<ValueId> state{masters_[id.index()], moment(Role::exp_avg, id),
                                     moment(Role::exp_avg_sq, id)};
    std::vector<std::string> names;
    names.reserve(state.size());
    for (const ValueId old : state) names.push_back(graph_.value(old).name + ".new");
    const std::vector<ValueId> next =
        b_.emit(Op::adamw, path, {sums_[id.index()], state[0], state[1], state[2], scale, step}, names,
                {{Attr::beta1, options_.beta1}, {Attr::beta2, options_.beta2}, {Attr::eps, options_.eps}});
    for (std::size_t i = 0; i < next.size(); ++i) {
      graph_.value(next[i]).home = graph_.value(state[i]).home;
      graph_.value(next[i]).unit = id;
    }
  }

  ir::Graph graph_;
  ops::Builder b_;
  UpdateOptions options_;
  std::vector<ValueId> sums_, masters_;  ///< by unit
  std::vector<ValueId> completed_;       ///< the sums in the order of the last round's backward
  std::vector<ValueId> losses_;          ///< by round; empty in a stage without the loss
  std::int64_t rounds_ = 1;
};

}  // namespace

ir::Graph update(const ir::Graph& graph, const UpdateOptions& options) {
  return Update(graph, options).run();
}

}  // namespace weft::passes
