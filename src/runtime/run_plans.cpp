#include "runtime/run_plans.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/device.hpp"
#include "base/per_lane.hpp"
#include "comm/agree.hpp"
#include "compile/programs.hpp"
#include "compile/scheduling.hpp"
#include "compile/stage_times.hpp"
#include "compile/stages.hpp"
#include "exec/scratch.hpp"
#include "pipe/pipeline_schedule.hpp"
#include "plan/simulate.hpp"
#include "runtime/memory_usage.hpp"
#include "runtime/preflight.hpp"

namespace weft::runtime {

namespace {

/// Whether every rank has room for the copy. If one has not, it saves without a copy, and so do all others.
bool copy_fits(const Deck& deck, const PlannedMemory& memory, comm::World& world) {
  // On a GPU the copy is all that a plan takes of the host's memory.
  const std::int64_t mine = device_is_host() ? memory.needed() - memory_usage().own_bytes : memory.copy;
  const auto here = static_cast<double>(sum_on_host(mine, world));
  const auto available =
      static_cast<double>(available_memory().value_or(std::numeric_limits<std::int64_t>::max()));
  const bool limited = device_is_host() && deck.run.memory_limit > 0 &&
                       static_cast<double>(memory.needed()) > deck.run.memory_limit;
  return comm::on_all_ranks(world, !limited && here <= available);
}

/// How many microbatches a rank validates in one run of the plan. In a pipe there must be several, so that
/// its stages work at the same time; as many as in training have places for their tokens already.
int validation_rounds(const Deck& deck, const Session& session, std::int64_t validated) {
  if (session.mesh().size(pipe_axis) == 1) return 1;
  const std::int64_t ranks = session.batch_ranks();
  return static_cast<int>(
      std::min(accumulation(deck, session.batch_ranks()), (validated + ranks - 1) / ranks));
}

/// Collective: adds to a rank's step what it waits for the other stages of a pipe, which its own plan does
/// not tell. Each rank knows what its stages take, and all of them time the schedule of the whole pipe.
void add_waits_in_pipe(compile::StepParts& step, const Deck& deck, const plan::Plan& plan,
                       const machine::CostModel& costs, Session& session) {
  const auto options = compile::stage_options(deck, session.mesh(), session.pipe_rank());
  if (!options) return;
  const machine::LaneTimes times = plan::simulate(plan, costs);
  const auto stages = static_cast<std::size_t>(options->sizes.stages());
  // The seconds of all forwards, of all input gradients, of all weight gradients, and of a message.
  std::vector<double> known(3 * stages + 1);
  int chunk = 0;
  for (const pipe::StageTimes& own : compile::stage_times(plan, times, costs, options->sizes.chunks)) {
    const auto stage = static_cast<std::size_t>(options->places().stage(session.pipe_rank(), chunk++));
    known[stage] = own.forward;
    known[stages + stage] = own.input_grad;
    known[2 * stages + stage] = own.weight_grad;
  }
  known.back() = compile::message_seconds(plan, costs);
  session.world().all_reduce_max(known);
  std::vector<pipe::StageTimes> all;
  for (std::size_t stage = 0; stage < stages; ++stage)
    all.push_back({known[stage], known[stages + stage], known[2 * stages + stage]});
  const pipe::PipelineTimes timeline =
      pipe::simulate(pipe::make_pipeline_schedule(options->kind, options->sizes), all, known.back());
  const double idle = timeline.end - timeline.busy[static_cast<std::size_t>(session.pipe_rank())];
  step.step = compile::seconds_in_pipe({times.end, times.exposed}, idle);
  step.exposed[Lane::pipe] += step.step - times.end;
}

/// Collective: makes each part of the step the largest of all ranks. The lanes between stages are one part,
/// which goes to the lane pipe.
compile::StepParts largest_of_ranks(compile::StepParts step, comm::World& world) {
  for (PerLane<double>* const lanes : {&step.under_way, &step.exposed}) {
    (*lanes)[Lane::pipe] = of_pipe_lanes(*lanes);
    for (const Lane lane : stage_lanes) (*lanes)[lane] = 0;
  }
  std::vector<double*> parts{&step.step,       &step.compute_only, &step.compute,
                             &step.sent_bytes, &step.wire,         &step.memory_bytes};
  for (const Lane lane : communication_lanes)
    parts.insert(parts.end(), {&step.under_way[lane], &step.exposed[lane]});
  std::vector<double> most;
  for (const double* const part : parts) most.push_back(*part);
  world.all_reduce_max(most);
  for (std::size_t i = 0; i < parts.size(); ++i) *parts[i] = most[i];
  return step;
}

}  // namespace

RunPlans make_run_plans(const Deck& deck, Session& session, const machine::CostModel& costs,
                        std::int64_t validated) {
  const plan::ScratchQuery scratch = exec::scratch_query(session.matmuls());
  comm::World& world = session.world();
  const int neighbours = world.node_size();
  const auto most = [&world](std::int64_t bytes) {
    std::array<double, 1> value{static_cast<double>(bytes)};
    world.all_reduce_max(value);
    return static_cast<std::int64_t>(value[0]);
  };
  // All ranks choose by the same baseline. How much the plans themselves take shows only once they are made:
  // where the run's limit was missed by that little, they are made once more.
  return_large_blocks();
  trim_heap();
  std::int64_t baseline =
      most(least_baseline(deck, held_bytes(world), talking_ranks(session.mesh(), neighbours)));
  const auto choose = [&](const Deck& of, const Mesh& mesh, int place) {
    return compile::choose_schedule(of, mesh, scratch, costs, baseline + loading_bytes(of, mesh.world()),
                                    place);
  };
  RunPlans plans;
  bool by_limits = true;  // choosing has made the plan, perhaps by a limit
  for (int attempt = 0; attempt < 2 && by_limits; ++attempt) {
    plans = {};
    comm::agree(world, [&] {
      compile::Chosen chosen = choose(deck, session.mesh(), session.pipe_rank());
      by_limits = chosen.plan.has_value();
      plans.train = compile::take_plan(chosen, deck, session.mesh(), scratch);
      plans.schedule = compile::schedule_text(chosen.options, plans.train);
      if (validated > 0)
        plans.evaluate = compile::evaluation_plan(deck, session.mesh(), scratch, chosen.options,
                                                  validation_rounds(deck, session, validated));
    });
    trim_heap();
    plans.memory = planned_memory(deck, plans.train, plans.evaluate ? &*plans.evaluate : nullptr,
                                  held_bytes(world), neighbours);
    if (deck.run.memory_limit <= 0 ||
        static_cast<double>(most(plans.memory.needed())) <= deck.run.memory_limit)
      break;
    baseline = most(plans.memory.baseline);
  }
  plans.memory.copy = state_copy_bytes(deck, plans.train);
  plans.background = plans.memory.copy > 0 && copy_fits(deck, plans.memory, world);
  if (!plans.background || !device_is_host()) plans.memory.copy = 0;
  session.check_same_plan(plans.train);
  if (plans.evaluate) session.check_same_plan(*plans.evaluate);
  const std::int64_t largest_baseline = most(plans.memory.baseline);
  const auto replan = [&](const Deck& changed, int ranks, int place) {
    Mesh mesh = resolve_mesh(changed, ranks);
    mesh.set_teams(session.teams_of(ranks));
    compile::Chosen chosen = choose(changed, mesh, place);
    const plan::Plan plan = compile::take_plan(chosen, changed, mesh, scratch);
    PlannedMemory memory = planned_memory(changed, plan, nullptr, 0, neighbours);
    memory.baseline = largest_baseline;
    return memory;
  };
  check_memory(deck, plans.memory, replan, world);
  plans.step = compile::planned_step(plans.train, costs);
  plans.step.memory_bytes = static_cast<double>(plans.memory.peak());
  add_waits_in_pipe(plans.step, deck, plans.train, costs, session);
  plans.step = largest_of_ranks(plans.step, world);
  return plans;
}

}  // namespace weft::runtime
