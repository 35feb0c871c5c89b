// Pipeline schedules: which stage a rank of the pipe axis works on, and in which order. A schedule is data.
// It is made by make_pipeline_schedule(), proved by check(), timed by simulate() and drawn by drawn().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/pipeline_kind.hpp"
#include "base/stage_places.hpp"

namespace weft::pipe {

/// How many ranks the pipe has, stages (chunks of layers) each of them, and microbatches of a step they
/// share.
struct Sizes {
  int ranks = 1;
  int chunks = 1;
  int microbatches = 1;
  int stages() const { return ranks * chunks; }
};

enum class Work : std::uint8_t {
  forward,
  backward,     ///< both parts of a backward, one after the other
  input_grad,   ///< the part that the stage before waits for
  weight_grad,  ///< the part that nothing waits for before the update
};

/// One piece of work of a rank: a microbatch in one of the rank's stages.
struct Action {
  Work work = Work::forward;
  int microbatch = 0;
  int chunk = 0;
  bool operator==(const Action&) const = default;
};

/// The action's name in pictures: F3 is the forward of microbatch 3, B3 its backward or input gradient, W3
/// its weight gradient; in the rank's second stage F3b, B3b and W3b.
std::string short_name(const Action& action);

struct PipelineSchedule {
  PipelineKind kind = PipelineKind::gpipe;
  Sizes sizes;
  std::vector<std::vector<Action>> actions;  ///< in order, by rank
  StagePlaces places() const { return {sizes.ranks, folds(kind)}; }
  int stage(int rank, const Action& action) const { return places().stage(rank, action.chunk); }
};

/// Makes the schedule. Each kind serves any number of ranks and microbatches, and the numbers of chunks that
/// serves_chunks() says. Throws std::logic_error otherwise.
PipelineSchedule make_pipeline_schedule(PipelineKind kind, const Sizes& sizes);

/// Throws std::logic_error unless
/// - each microbatch passes each stage once forward and once backward,
/// - a stage takes microbatches in rising order, in every kind of work, so that sums of weight gradients have
/// one
///   order whatever the schedule,
/// - no ranks wait for each other in a circle,
/// - what a rank sends to another, activations or gradients, arrives in the order in which it is used, so
/// that
///   messages need no tags,
/// - where the first stage and the last are one rank's, a microbatch's weight gradients are made from the
/// last
///   of a rank's stages to the first: the head's may be a part of the embedding's.
void check(const PipelineSchedule& schedule);

/// What the work of one stage takes, in seconds or any other unit.
struct StageTimes {
  double forward = 1, input_grad = 1, weight_grad = 1;
};

struct Span {
  Action action;
  double start = 0, end = 0;
};

/// What happens when each rank begins each action as soon as it can.
struct PipelineTimes {
  std::vector<std::vector<Span>> spans;  ///< by rank
  double end = 0;                        ///< of the last action
  std::vector<double> busy;              ///< by rank
  /// How many pairs of stage and microbatch each rank holds at most: those whose forward has begun and whose
  /// backward has not ended.
  std::vector<int> in_flight;

  /// The idle time of a rank over its busy time, in a step: the bubble.
  double bubble(int rank) const;
};

/// Times a schedule whose stages take `stages` (one entry: all take this long), and whose messages take
/// `message`. Throws std::logic_error when ranks wait for each other in a circle.
PipelineTimes simulate(const PipelineSchedule& schedule, const std::vector<StageTimes>& stages,
                       double message = 0);

/// A row of cells for each rank, one cell for each unit of time: "F3" is the forward of microbatch 3, "B3"
/// its backward (or the part of it that gives input gradients), "W3" the part that gives weight gradients,
/// and "." an idle unit. Chunks after the first are named behind the microbatch, "F3b". Rows end with "..."
/// behind `cells` cells.
std::string drawn(const PipelineSchedule& schedule, const PipelineTimes& timeline, int cells = 40);

}  // namespace weft::pipe
