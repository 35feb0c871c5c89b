// `weft checkpoint import`: weights of a Hugging Face directory as a checkpoint of step 0.
#pragma once

#include <string>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/save.hpp"
#include "hf/weights.hpp"

namespace weft::hf {

/// The least deck of the model: what a checkpoint of its weights alone carries, and what `weft sample` needs.
/// Throws Error(bad_input) when a size is out of the deck's range.
Deck deck_of(const Weights& weights);

/// Saves the weights as CHECKPOINTS_DIR/step-00000000, masters only. `run` and `units` are those of deck_of's
/// model. On storage there is a copy of the fp32 weights meanwhile, a nameless file in the same directory,
/// which stands for memory: of that it takes 64 MiB and pages that the system can have back. Throws
/// Error(environment) when it cannot be written, Error(bad_checkpoint) for damage and for a checkpoint of
/// step 0 that is there already.
ckpt::SaveReport import_weights(const Weights& weights, const ckpt::RunState& run,
                                const std::vector<Unit>& units, const std::string& checkpoints_dir);

}  // namespace weft::hf
