// What the stages of a pipe take, read from the plans of its places.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/step_seconds.hpp"
#include "machine/cost_model.hpp"
#include "machine/lanes.hpp"
#include "pipe/pipeline_schedule.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

/// The seconds of a microbatch in each of the place's stages. What the place waits for inside a stage, the
/// collectives of the axes tensor and context, is in them; `times` are simulate()'s. A backward's two parts
/// take as long as each other.
std::vector<pipe::StageTimes> stage_times(const plan::Plan& plan, const machine::LaneTimes& times,
                                          const machine::CostModel& costs, int chunks);

/// The seconds of a place's step that takes `alone` if it waits for no other stage, and that waits for `idle`
/// seconds because of them. The idle time has the messages' latency in it, so that what the plan alone waits
/// for messages does not count again, unless the link is what limits.
double seconds_in_pipe(const StepTimes& alone, double idle);

/// Bytes of the storages that hold something of each microbatch: tokens, targets, positions.
std::int64_t batch_bytes(const plan::Plan& plan);

/// Seconds of the longest message between stages.
double message_seconds(const plan::Plan& plan, const machine::CostModel& costs);

}  // namespace weft::compile
