// Predicts a step of a mesh from the plans of those places that differ, without a rank of it.
#pragma once

#include <cstdint>

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "machine/cost_model.hpp"
#include "plan/plan.hpp"

namespace weft::compile {

/// A step of the slowest place, in seconds, and the memory of the fullest.
struct PredictedStep {
  double seconds = 0;
  /// Parts of `seconds`. `idle` is how long the place has nothing to do because of other stages and messages.
  /// The others are how long it waits for collectives: `data` for those over the axes data and replica, and
  /// `tensor` and `context` for those over the axes of these names.
  double idle = 0, data = 0, tensor = 0, context = 0;
  std::int64_t bytes = 0;  ///< bytes of state and arena
};

/// Plans one place of each kind on the mesh's pipe (places whose stages have as many layers are of one kind),
/// and two where the fullest of a kind is not the first, with as few microbatches as stand for all.
/// `baseline` is as in choose_schedule(). `scratch` may be asked by several threads at a time. Throws
/// Error(bad_input) where sizes do not divide, or no plan fits.
PredictedStep predicted_step(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                             const machine::CostModel& costs, std::int64_t baseline);

}  // namespace weft::compile
