// slices.jsonl: the descriptions of all shards, a line each in the order of the manifest. Of a large run it
// has hundreds of megabytes, so that it is written and read in blocks, and nobody holds the whole of it.
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
  /// fsyncs the file, and says what the manifest stores of it.
  Digest finish();

 private:
  void write();

  io::File file_;
  HashStream hash_;
  std::string block_;
  std::int64_t bytes_ = 0;
};

/// Calls `take` for each shard of a checkpoint, in the manifest's order; shards are checked as check_shard
/// says. The checksum of the descriptions is compared before the first. Throws Error(bad_checkpoint).
void for_each_shard(const Manifest& manifest, const std::function<void(const Shard&)>& take);
/// Collective: the same on every rank; rank 0 alone reads the descriptions, and sends them on in blocks. When
/// any rank throws, all leave after the block, as leave_together says.
void for_each_shard(const Manifest& manifest, const Hooks& hooks,
                    const std::function<void(const Shard&)>& take);

/// Takes a block of whole lines apart: shard number `index` and those that follow it, which is then the
/// number of the one behind. Throws Error(bad_checkpoint).
void read_lines(std::string_view block, const Manifest& manifest, std::size_t& index,
                const std::function<void(const Shard&)>& take);

}  // namespace weft::ckpt::detail
