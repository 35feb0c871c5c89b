#include "compile/step_seconds.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "passes/collectives.hpp"
#include "plan/simulate.hpp"

namespace weft::compile {
namespace {

/// When the last instruction of each round ends; reductions behind the compute count, too.
std::vector<double> ends_of_rounds(const plan::Plan& plan, const machine::LaneTimes& times) {
  std::vector<double> ends(static_cast<std::size_t>(plan.graph.rounds()));
  for (const plan::Instruction& instruction : plan.instructions) {
    const ir::Node& node = plan.graph.node(instruction.node);
    if (node.phase == ir::Phase::update) continue;
    double& end = ends[static_cast<std::size_t>(node.round)];
    end = std::max(end, times.spans[instruction.lane][instruction.sequence - 1].end);
  }
  return ends;
}

/// What the lane compute does in the rounds, in order.
struct Computed {
  const ir::Node* node;
  double start, end;  ///< in seconds
  double seconds;     ///< since the work before it ended, so with what it waits for
};
std::vector<Computed> computed_in_rounds(const plan::Plan& plan, const machine::LaneTimes& times) {
  std::vector<Computed> all;
  double before = 0;
  for (const plan::Instruction& instruction : plan.instructions) {
    const ir::Node& node = plan.graph.node(instruction.node);
    if (instruction.lane != Lane::compute || node.phase == ir::Phase::update) continue;
    const machine::LaneTimes::Span& span = times.spans[instruction.lane][instruction.sequence - 1];
    all.push_back({&node, span.start, span.end, span.end - before});
    before = span.end;
  }
  return all;
}

/// The seconds of one microbatch more in a stage of a pipe, where several are under way in an order that need
/// not repeat itself. Each kind of work counts with what it waits for before it, on average between the end
/// of the first microbatch and the begin of the last: the pipe fills and drains outside of that. So does what
/// a step does once, which a microbatch more does not do again.
double period_in_pipe(const plan::Plan& plan, const machine::LaneTimes& times) {
  const std::vector<Computed> all = computed_in_rounds(plan, times);
  const int rounds = plan.graph.rounds();
  double begin = 0, end = times.end;
  for (const Computed& work : all) {
    if (work.node->round == 0) begin = work.end;
    if (work.node->round == rounds - 1) end = std::min(end, work.start);
  }
  struct Kind {
    double seconds = 0;  ///< between begin and end
    int count = 0;       ///< there
    int of_all = 0;
  };
  std::map<std::tuple<std::string, ir::Phase, ir::Op>, Kind> kinds;
  for (const Computed& work : all) {
    Kind& kind = kinds[{work.node->module, work.node->phase, work.node->op}];
    ++kind.of_all;
    if (work.start < begin || work.start >= end) continue;
    kind.seconds += work.seconds;
    ++kind.count;
  }
  double period = 0;
  for (const auto& [name, kind] : kinds)
    if (kind.count > 0) period += kind.seconds / kind.count * kind.of_all / rounds;
  return period;
}

}  // namespace

double step_seconds(const plan::Plan& plan, const machine::CostModel& costs, std::int64_t more_rounds) {
  return step_seconds(plan, plan::simulate(plan, costs), more_rounds);
}

double step_seconds(const plan::Plan& plan, const machine::LaneTimes& times, std::int64_t more_rounds) {
  if (more_rounds == 0) return times.end;
  // A stage of a pipe begins a microbatch before it has ended the one before.
  if (plan.graph.mesh().size(pipe_axis) > 1)
    return times.end + static_cast<double>(more_rounds) * period_in_pipe(plan, times);
  const std::vector<double> ends = ends_of_rounds(plan, times);
  if (ends.size() < 6 || !passes::take_turns(plan.graph))
    return times.end + static_cast<double>(more_rounds) * (ends[2] - ends[1]);
  const auto end_of_two = [&](std::size_t round) { return std::max(ends[round], ends[round + 1]); };
  return times.end + static_cast<double>(more_rounds) / 2 * (end_of_two(4) - end_of_two(2));
}

}  // namespace weft::compile
