// Host buffers for one microbatch, and their way to the plan's input storages.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_source.hpp"
#include "kernels/memory.hpp"
#include "model/llama.hpp"
#include "train/session.hpp"

namespace weft::train {

class MicrobatchBuffers {
 public:
  MicrobatchBuffers(std::int64_t batch, std::int64_t seq)
      : tokens(static_cast<std::size_t>(batch * seq)), targets(tokens.size()), positions(tokens.size()) {}

  /// Copies to the input storages of accumulation round `round`.
  void upload(Session& session, int round) const {
    const auto copy = [&](const std::string& name, const std::vector<std::int32_t>& host) {
      kernels::copy_to_device(session.space(), session.memory().storage(name), host.data(),
                              host.size() * sizeof(std::int32_t));
    };
    copy(model::tokens_name(round), tokens);
    copy(model::positions_name(round), positions);
    if (session.memory().has(model::targets_name(round))) copy(model::targets_name(round), targets);
  }

  std::vector<std::int32_t> tokens, targets, positions;  ///< [batch, seq]
};

/// A step's microbatches of this rank, into the inputs of all accumulation rounds. Collective over the data
/// axis where the plan sends only rows of the embedding that tokens name.
void upload_step(Session& session, data::BatchSource& batches, std::int64_t step, std::int64_t rounds,
                 MicrobatchBuffers& buffers);

/// Fills the plan's table of rotary angles.
void upload_rope_table(Session& session, const Deck& deck);

}  // namespace weft::train
