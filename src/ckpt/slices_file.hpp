// Writes and reads slices.jsonl: the descriptions of all shards, a line for each in the order of the
// manifest. For a large run this is hundreds of megabytes, so it is written and read in blocks, and nobody
// holds the whole of it.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "ckpt/hooks.hpp"
#include "ckpt/manifest.hpp"
#include "ckpt/shard.hpp"
#include "io/file.hpp"

namespace weft::ckpt::detail {

/// About how much text is read, or gathered from other ranks, at a time.
inline constexpr std::size_t block_bytes = std::size_t{4} << 20;

class SlicesWriter {
 public:
  explicit SlicesWriter(const std::string& path);
  void add(const std::string& line);
  /// Syncs the file to storage, and returns what the manifest stores of it.
  Digest finish();

 private:
  void write();

  io::File file_;
  HashStream hash_;
  std::string block_;
  std::int64_t bytes_ = 0;
};

/// Calls `take` for each shard of a checkpoint, in the manifest's order, after checking it with check_shard.
/// The checksum of the descriptions is compared before the first call. Throws Error(bad_checkpoint).
void for_each_shard(const Manifest& manifest, const std::function<void(const Shard&)>& take);
/// Collective: calls `take` for each shard on every rank. Rank 0 alone reads the descriptions, and sends them
/// on in blocks. When any rank throws, all leave after the block, by leave_together.
void for_each_shard(const Manifest& manifest, const Hooks& hooks,
                    const std::function<void(const Shard&)>& take);

/// Takes a block of whole lines apart, and calls `take` for each. The first line is shard number `index`,
/// which is raised to the number of the shard after the last. Throws Error(bad_checkpoint).
void read_lines(std::string_view block, const Manifest& manifest, std::size_t& index,
                const std::function<void(const Shard&)>& take);

}  // namespace weft::ckpt::detail
