// Plans all ranks of a pipe, for `weft plan`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "machine/cost_model.hpp"
#include "pipe/pipeline_schedule.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

/// What a place on the pipe has and takes.
struct PlannedRank {
  std::string stages;           ///< its layers by stage: "embed, 0-2", or "0-1 | 4-5"
  std::int64_t parameters = 0;  ///< of its stages, over all ranks of this place
  std::int64_t state_bytes = 0, arena_bytes = 0;
  std::optional<std::uint64_t> hash;  ///< of its plan; none where a plan of fewer microbatches was made
};

struct PlannedPipe {
  pipe::PipelineSchedule schedule;
  std::vector<PlannedRank> ranks;
  pipe::PipelineTimes timeline;  ///< of the stages' work, with the messages between them
  /// How many microbatches the plans of the places without a hash have. They stand for all.
  std::int64_t planned_microbatches = 0;
};

/// A place on the pipe whose plan has been made.
struct KnownPlace {
  const plan::Plan& plan;
  int pipe_rank = 0;
};

/// Plans each place of the mesh's pipe but the known one, with as many microbatches as stand for all.
/// `baseline` is as in choose_schedule(). Throws Error(bad_input) where a plan of so many does not fit; what
/// the tokens of the others take is in state_bytes, and in no limit.
PlannedPipe planned_pipe(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                         const machine::CostModel& costs, std::int64_t baseline, const KnownPlace& known);

/// A table with a row for each place, and the schedule's picture.
std::string to_text(const PlannedPipe& pipe);

}  // namespace weft::compile
