// Host buffers for one microbatch, and functions that copy them to the plan's input storages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/step_block.hpp"
#include "data/batch_source.hpp"
#include "kernels/memory.hpp"
#include "model/llama.hpp"
#include "passes/passes.hpp"
#include "runtime/session.hpp"

namespace weft::runtime {

class MicrobatchBuffers {
 public:
  MicrobatchBuffers(std::int64_t batch, std::int64_t seq)
      : tokens(static_cast<std::size_t>(batch * seq)),
        targets(tokens.size()),
        positions(tokens.size()),
        seq_(static_cast<std::size_t>(seq)) {}

  /// Call it before the first upload of a step with this many accumulation rounds, always the same number.
  /// The step before must have ended.
  void begin_step(std::int64_t rounds = 1) {
    if (!staging_) {
      const std::size_t each = 3 * tokens.size() * sizeof(std::int32_t);
      staging_.emplace(static_cast<std::size_t>(rounds) * each + sizeof(StepBlock));
    }
    staging_->reuse();
  }
  /// What this rank computes of a whole microbatch's tokens, targets or positions: all of it or, of a
  /// sequence that several ranks share, its sections (model::Batch::context), [sections, batch, tokens of a
  /// section]. It is good until the next call.
  std::span<const std::int32_t> own(const Session& session, const std::vector<std::int32_t>& whole);
  /// Copies the buffers to the input storages of accumulation round `round`, in the order of the session's
  /// space. The host does not wait: the buffers are free for the next microbatch at once.
  void upload(Session& session, int round) {
    const auto copy = [&](const std::string& name, const std::vector<std::int32_t>& whole) {
      const std::span<const std::int32_t> host = own(session, whole);
      upload(session, name, host.data(), host.size_bytes());
    };
    // A stage of a pipe has only those inputs that it reads, and a forward alone has no targets.
    for (const auto& [name, host] :
         {std::pair(model::tokens_name(round), &tokens), std::pair(model::positions_name(round), &positions),
          std::pair(model::targets_name(round), &targets)})
      if (session.memory().has(name)) copy(name, *host);
  }
  void upload(Session& session, const StepBlock& block) {
    upload(session, passes::step_name, &block, sizeof block);
  }

  std::vector<std::int32_t> tokens, targets, positions;  ///< [batch, seq]

 private:
  void upload(Session& session, std::string_view storage, const void* host, std::size_t bytes) {
    if (!staging_) throw std::logic_error("begin_step() comes before the first upload()");
    staging_->copy_to_device(session.space(), session.memory().storage(storage), host, bytes);
  }

  std::size_t seq_;
  std::vector<std::int32_t> own_;
  std::optional<kernels::Staging> staging_;  ///< outlives the copies
};

/// Brings this rank's microbatches of a step to the inputs of all accumulation rounds. Collective over the
/// data axis where the plan sends only those rows of the embedding that tokens name.
void upload_step(Session& session, data::BatchSource& batches, std::int64_t step, std::int64_t rounds,
                 MicrobatchBuffers& buffers);

/// Fills the plan's table of rotary angles.
void upload_rope_table(Session& session, const Deck& deck);

}  // namespace weft::runtime
