// Turns the weights of a Hugging Face directory into a checkpoint of step 0, for `weft checkpoint import`.
#pragma once

#include <string>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/save.hpp"
#include "hf/weights.hpp"

namespace weft::hf {

/// The smallest deck of the model: what a checkpoint with only its weights carries, and what `weft sample`
/// needs. Throws Error(bad_input) when a size is out of the deck's range.
Deck deck_of(const Weights& weights);

/// Saves the weights as CHECKPOINTS_DIR/step-00000000, masters only. `run` and `units` are those of the model
/// of deck_of(). Meanwhile a nameless file in the same directory holds a copy of the fp32 weights on storage,
/// in the place of memory. In memory it takes 64 MiB, and pages that the system can have back. Throws
/// Error(environment) when it cannot write, Error(bad_checkpoint) for damage, and Error(bad_input) for a
/// checkpoint of step 0 that is there already. A page of the copy that storage does not give back ends the
/// program (io::MappedFileWatch).
ckpt::SaveReport import_weights(const Weights& weights, const ckpt::RunState& run,
                                const std::vector<Unit>& units, const std::string& checkpoints_dir);

}  // namespace weft::hf
