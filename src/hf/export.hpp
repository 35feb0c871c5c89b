// Writes the weights of a checkpoint as a directory that `transformers` loads, for `weft checkpoint export`.
#pragma once

#include <cstdint>
#include <string>

#include "deck/deck.hpp"
#include "hf/element.hpp"

namespace weft::hf {

struct ExportOptions {
  Element dtype = Element::bf16;
  /// The most data in a file, unless a single tensor has more.
  std::int64_t file_bytes = std::int64_t{4} << 30;
  /// The longest context, for config.json; 0: exported_max_position() of the checkpoint's deck.
  std::int64_t max_position = 0;
};

struct ExportReport {
  int files = 0;
  std::int64_t bytes = 0;  ///< size of all tensors
  std::int64_t parameters = 0;
};

/// The longest context that a deck's model was made for: its data.seq, or what rope_scaling stretches to.
std::int64_t exported_max_position(const Deck& deck);

/// Writes the masters of `checkpoint` (a step-N directory) to `out_dir`, which must not exist: config.json,
/// and model.safetensors or its parts with an index. Nothing is seen under that name before all of it is on
/// storage. It runs in one process without MPI. Whatever the model's size, it holds a part of a slab, its
/// converted copy, and the description of one shard in memory, 64 MiB at most. Throws Error(environment) when
/// it cannot write, Error(bad_input) for an `out_dir` that is there or that another export is making, and
/// Error(bad_checkpoint) for damage and for a weight that the type cannot hold.
ExportReport export_weights(const std::string& checkpoint, const std::string& out_dir,
                            const ExportOptions& options);

}  // namespace weft::hf
