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
  const plan::Instruction* instruction;
  double before, start, end;  ///< in seconds; `before` is when the work before it ended

  double seconds() const { return end - before; }  ///< with what it waits for
};
std::vector<Computed> computed_in_rounds(const plan::Plan& plan, const machine::LaneTimes& times) {
  std::vector<Computed> all;
  double before = 0;
  for (const plan::Instruction& instruction : plan.instructions) {
    const ir::Node& node = plan.graph.node(instruction.node);
    if (instruction.lane != Lane::compute || node.phase == ir::Phase::update) continue;
    const machine::LaneTimes::Span& span = times.spans[instruction.lane][instruction.sequence - 1];
    all.push_back({&node, &instruction, before, span.start, span.end});
    before = span.end;
  }
  return all;
}

/// Adds how long the work waits for each lane between two moments. Of several lanes that it waits for at a
/// time one counts, as in machine::run_lanes().
void add_waits(const Computed& work, const machine::LaneTimes& times, double begin, double end,
               PerLane<double>& exposed) {
  PerLane<double> until{};
  for (const plan::Wait& wait : work.instruction->waits)
    until[wait.lane] = times.spans[wait.lane][wait.sequence - 1].end;
  double now = work.before;
  for (const Lane lane : all_lanes) {
    if (until[lane] <= now) continue;
    exposed[lane] += std::max(0.0, std::min(until[lane], end) - std::max(now, begin));
    now = until[lane];
  }
}

/// What a round takes of which there are `rounds` between two moments.
StepTimes round_between(const plan::Plan& plan, const machine::LaneTimes& times, double begin, double end,
                        int rounds) {
  StepTimes round{(end - begin) / rounds, {}};
  for (const Computed& work : computed_in_rounds(plan, times))
    add_waits(work, times, begin, end, round.exposed);
  for (double& seconds : round.exposed.values) seconds /= rounds;
  return round;
}

/// What one microbatch more takes in a stage of a pipe, where several are under way in an order that need not
/// repeat itself. Each kind of work counts with what it waits for before it, on average between the end of
/// the first microbatch and the begin of the last: the pipe fills and drains outside of that. So does what a
/// step does once, which a microbatch more does not do again.
StepTimes round_in_pipe(const plan::Plan& plan, const machine::LaneTimes& times) {
  const std::vector<Computed> all = computed_in_rounds(plan, times);
  const int rounds = plan.graph.rounds();
  double begin = 0, end = times.end;
  for (const Computed& work : all) {
    if (work.node->round == 0) begin = work.end;
    if (work.node->round == rounds - 1) end = std::min(end, work.start);
  }
  struct Kind {
    StepTimes sum;  ///< between begin and end
    int count = 0;  ///< there
    int of_all = 0;
  };
  std::map<std::tuple<std::string, ir::Phase, ir::Op>, Kind> kinds;
  for (const Computed& work : all) {
    Kind& kind = kinds[{work.node->module, work.node->phase, work.node->op}];
    ++kind.of_all;
    if (work.start < begin || work.start >= end) continue;
    kind.sum.seconds += work.seconds();
    add_waits(work, times, 0, times.end, kind.sum.exposed);
    ++kind.count;
  }
  StepTimes round;
  for (const auto& [name, kind] : kinds) {
    if (kind.count == 0) continue;
    const double in_round = static_cast<double>(kind.of_all) / kind.count / rounds;
    round.seconds += kind.sum.seconds * in_round;
    for (const Lane lane : all_lanes) round.exposed[lane] += kind.sum.exposed[lane] * in_round;
  }
  return round;
}

/// What one of the plan's middle rounds takes.
StepTimes middle_round(const plan::Plan& plan, const machine::LaneTimes& times) {
  // A stage of a pipe begins a microbatch before it has ended the one before.
  if (plan.graph.mesh().size(pipe_axis) > 1) return round_in_pipe(plan, times);
  const std::vector<double> ends = ends_of_rounds(plan, times);
  if (ends.size() < 6 || !passes::take_turns(plan.graph))
    return round_between(plan, times, ends[1], ends[2], 1);
  const auto end_of_two = [&](std::size_t round) { return std::max(ends[round], ends[round + 1]); };
  return round_between(plan, times, end_of_two(2), end_of_two(4), 2);
}

}  // namespace

StepTimes step_times(const plan::Plan& plan, const machine::LaneTimes& times, std::int64_t more_rounds) {
  StepTimes step{times.end, times.exposed};
  if (more_rounds == 0) return step;
  const StepTimes round = middle_round(plan, times);
  const auto more = static_cast<double>(more_rounds);
  step.seconds += more * round.seconds;
  for (const Lane lane : all_lanes) step.exposed[lane] += more * round.exposed[lane];
  return step;
}

double step_seconds(const plan::Plan& plan, const machine::LaneTimes& times, std::int64_t more_rounds) {
  return step_times(plan, times, more_rounds).seconds;
}

double step_seconds(const plan::Plan& plan, const machine::CostModel& costs, std::int64_t more_rounds) {
  return step_seconds(plan, plan::simulate(plan, costs), more_rounds);
}

}  // namespace weft::compile
