// Rank 0's side of a save: it writes slices.jsonl from the lines that the ranks send, and proves that they
// cover the model, without holding them all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/coverage.hpp"
#include "ckpt/manifest.hpp"
#include "ckpt/shard.hpp"
#include "ckpt/slices_file.hpp"

namespace weft::ckpt::detail {

/// The index of virtual datasets maps each slice. From this many slices on it is left out, because HDF5 would
/// take hundreds of megabytes of the host's memory to lay it out.
inline constexpr std::size_t most_indexed_slices = std::size_t{1} << 18;

class Description {
 public:
  /// Begins DIR/slices.jsonl. `manifest` outlives it, and has the units.
  Description(const std::string& dir, const Manifest& manifest);

  /// Adds the lines of the next ranks, in rank order.
  void add(const std::vector<std::string>& lines);
  /// Completes the file, and the manifest's files, state_bytes and slices. Throws Error(bad_checkpoint)
  /// unless every element is there exactly once.
  void finish(Manifest& manifest);
  /// All shards without their checksums, for the index; empty when there are too many slices.
  const std::vector<Shard>& indexed() const { return indexed_; }

 private:
  Coverage coverage_;
  SlicesWriter writer_;
  std::vector<StoredFile> files_;
  std::int64_t state_bytes_ = 0;
  std::size_t slices_ = 0;
  std::vector<Shard> indexed_;
};

/// How many ranks' lines are gathered at a time, when the longest line has `longest_line` bytes.
int ranks_at_once(std::size_t longest_line);

}  // namespace weft::ckpt::detail
