// `weft checkpoint export`: the weights of a checkpoint as a directory that `transformers` loads.
#pragma once

#include <cstdint>
#include <string>

#include "hf/element.hpp"

namespace weft::hf {

struct ExportOptions {
  Element dtype = Element::bf16;
  std::int64_t file_bytes = std::int64_t{4} << 30;  ///< of data, at most, unless one tensor has more
};

struct ExportReport {
  int files = 0;
  std::int64_t bytes = 0;  ///< of all tensors
  std::int64_t parameters = 0;
};

/// Writes the masters of `checkpoint` (a step-N directory) to `out_dir`, which must not exist: config.json,
/// model.safetensors or its parts with an index. Nothing is seen under that name before all of it is on
/// storage. On one process without MPI; in memory there are a part of a slab and its converted copy, and the
/// description of one shard at a time, 64 MiB at most, whatever the model's size. Throws
/// Error(environment) when it cannot be written, Error(bad_checkpoint) for damage and for a weight that the
/// type cannot hold.
ExportReport export_weights(const std::string& checkpoint, const std::string& out_dir,
                            const ExportOptions& options);

}  // namespace weft::hf
