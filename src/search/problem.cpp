#include "search/problem.hpp"

#include <algorithm>

#include "base/per_lane.hpp"
#include "ops/cost.hpp"
#include "passes/collectives.hpp"
#include "plan/buffers.hpp"
#include "plan/offsets.hpp"

namespace weft::search {
namespace {

using ir::Node;
using ir::Op;

class Reader {
 public:
  Reader(const ir::Graph& graph, const plan::ScratchQuery& scratch, const machine::CostModel& costs)
      : graph_(graph),
        scratch_(scratch),
        costs_(costs),
        gather_of_(graph.values().size()),
        fixed_of_(graph.values().size()),
        is_sum_(graph.values().size(), false) {}

  Problem run() {
    problem_.units = graph_.units().size();
    problem_.turns = passes::take_turns(graph_);
    read_nodes();
    for (Fixed& f : problem_.fixed)
      if (f.use == none) f.use = problem_.slots.size();
    if (!sums_used_) problem_.sums_use = problem_.slots.size();
    read_memory();
    return std::move(problem_);
  }

 private:
  static constexpr auto none = static_cast<std::size_t>(-1);
  using GatherId = Id<struct GatherTag>;  ///< index into Problem::gathers
  using FixedId = Id<struct FixedTag>;    ///< index into Problem::fixed

  void read_nodes() {
    slot_of_.resize(graph_.nodes().size());
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (is_waited_for(node)) {
        add_compute(costs_.collective_seconds(graph_, node));
      } else if (ir::communicates(node.op)) {
        communication(node);
      } else if (!ir::is_alias(node.op)) {
        compute(node);
      } else if (!node.inputs.empty()) {  // a view of a gathered unit stands for the unit
        gather_of_[node.out(ir::operand::single::to).index()] =
            gather_of_[node.in(ir::operand::single::from).index()];
      }
      slot_of_[i] = problem_.slots.empty() ? 0 : problem_.slots.size() - 1;
      problem_.last_node.resize(problem_.slots.size());
      if (!problem_.slots.empty()) problem_.last_node.back() = i;
    }
  }

  /// Whether nothing can be done beside the collective: all of a step waits for the scales of Float8's
  /// weights.
  static bool is_waited_for(const Node& node) {
    return ir::is_collective(node.op) && node.attributes.has(ir::Attr::largest);
  }

  void communication(const Node& node) {
    open_ = false;
    if (node.lane != Lane::gather && node.lane != Lane::reduce && node.lane != Lane::replica) {
      fixed(node);
      return;
    }
    machine::RankGroup& peers = node.lane == Lane::replica ? problem_.replicas : problem_.ranks;
    peers = {ops::ranks_of(graph_, node), ops::span_of(graph_, node)};
    const double wire = costs_.bytes_sent(graph_, node);
    const ir::ValueId result = node.outputs.front();  // one member: buckets come later
    const ir::Value& value = graph_.value(result);
    const std::size_t next = problem_.slots.size();
    if (passes::is_parameter_gather(node)) {
      gather_of_[result.index()] = GatherId(problem_.gathers.size());
      problem_.gather_type = value.type.dtype;
      problem_.gathers.push_back({value.unit, node.phase, node.round, next, next, wire,
                                  ops::copied_bytes(graph_, node) / ops::team_of(node)});
    } else if (node.op == Op::reduce_scatter && next > 0) {
      const ir::ValueId gradient = ir::member_input(node, 0);
      problem_.reduce_type = graph_.value(gradient).type.dtype;
      problem_.reduces.push_back(
          {value.unit, node.round, next - 1, wire, graph_.local_bytes(gradient) + scratch_(graph_, node)});
    } else if (node.lane == Lane::replica && value.unit.valid() && next > 0) {
      is_sum_[result.index()] = true;
      problem_.sums.push_back({value.unit, next - 1, wire, scratch_(graph_, node)});
    } else {
      fixed(node);
    }
  }

  void fixed(const Node& node) {
    for (const ir::ValueId output : node.outputs) fixed_of_[output.index()] = FixedId(problem_.fixed.size());
    problem_.fixed.push_back({node.lane, costs_.link_of(graph_, node),
                              costs_.collective_seconds(graph_, node), costs_.bytes_sent(graph_, node),
                              problem_.slots.size(), none});
  }

  void compute(const Node& node) {
    for (ir::ValueId input : node.inputs)
      if (const FixedId f = fixed_of_[input.index()]; f.valid() && problem_.fixed[f.index()].use == none) {
        open_ = false;
        problem_.fixed[f.index()].use = problem_.slots.size();
      }
    if (!sums_used_ && reads_sum(node)) {
      open_ = false;
      sums_used_ = true;
      problem_.sums_use = problem_.slots.size();
    }
    add_compute(costs_.kernel_seconds(graph_, node));
    for (ir::ValueId input : node.inputs)
      if (const GatherId g = gather_of_[input.index()]; g.valid())
        problem_.gathers[g.index()].last = problem_.slots.size() - 1;
  }

  void add_compute(double seconds) {
    if (!open_) problem_.slots.push_back(0);
    open_ = true;
    problem_.slots.back() += seconds;
  }

  bool reads_sum(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [this](ir::ValueId input) { return is_sum_[input.index()]; });
  }

  /// Reads the most live bytes of each slot from the plan's buffers.
  void read_memory() {
    const std::vector<std::int64_t> live =
        plan::live_by_place(plan::assign_buffers(graph_, scratch_).buffers, graph_.nodes().size());
    problem_.live.assign(problem_.slots.size(), 0);
    for (std::size_t i = 0; i < live.size(); ++i) {
      std::int64_t& most = problem_.live[slot_of_[i]];
      most = std::max(most, live[i]);
    }
  }

  const ir::Graph& graph_;
  const plan::ScratchQuery& scratch_;
  const machine::CostModel& costs_;
  std::vector<GatherId> gather_of_;  ///< by value: the gather that brings it, or brings what it is a part of
  std::vector<FixedId> fixed_of_;    ///< by value
  std::vector<bool> is_sum_;         ///< by value: whether it is a sum over the replicas
  bool sums_used_ = false;
  std::vector<std::size_t> slot_of_;  ///< the slot of each node
  bool open_ = false;                 ///< the last slot still takes more compute
  Problem problem_;
};

}  // namespace

Problem make_problem(const ir::Graph& graph, const plan::ScratchQuery& scratch,
                     const machine::CostModel& costs) {
  return Reader(graph, scratch, costs).run();
}

}  // namespace weft::search
