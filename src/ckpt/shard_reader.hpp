// One open shard file. Slabs are read in parts through a small buffer, and their checksums taken on the way,
// so that memory does not grow with the slabs. HDF5 opens files of format 1 only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/manifest.hpp"
#include "ckpt/shard.hpp"
#include "io/file.hpp"

namespace weft::ckpt::detail {

/// What is read of a slab at a time: a multiple of all elements' sizes, and as large as one transfer without
/// the page cache.
inline constexpr std::int64_t part_bytes = std::int64_t{8} << 20;

/// Elements [begin, begin + count) of a slice that somebody wants: in `out`, or in parts by `put`, which is
/// given how many elements of the piece come before the part, and how many are in it.
struct Piece {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::byte* out = nullptr;
  std::function<void(std::int64_t at, std::int64_t count, const std::byte* data)> put;

  std::int64_t end() const { return begin + count; }
};

class ShardReader {
 public:
  /// Opens the file, which must have its size. Throws Error(bad_checkpoint), or Unreadable. Both arguments
  /// outlive it.
  ShardReader(const Manifest& manifest, const Shard& shard);

  /// Where the shard's slices number `which` begin in the file: for read().
  std::vector<std::int64_t> offsets_of(const std::vector<std::size_t>& which) const;
  /// Fills the pieces of one slice, whose bytes begin at `offset`; reads each slab that they touch once.
  /// Throws Error(bad_checkpoint) that names state and elements of the first slab that is damaged; what it
  /// has filled until then is not to be used.
  void read(const ShardSlice& slice, std::int64_t offset, std::vector<Piece> pieces);
  /// Every damage of the file, a line each: headers, slabs, and bytes other than 0 between them. Its pages
  /// are dropped from the page cache first, and with `direct_io` it is read without that.
  std::vector<std::string> damage(bool direct_io);

 private:
  void read_slab(const ShardSlice& slice, std::int64_t offset, std::int64_t slab,
                 std::span<const Piece> pieces);
  void check_slabs(std::vector<std::string>& problems);
  void check_header(std::vector<std::string>& problems);
  void check_holes(std::vector<std::string>& problems);
  /// The XXH3-64 of bytes of the file, read through the buffer.
  std::uint64_t hash_of(std::int64_t offset, std::int64_t bytes);
  bool is_zero(std::int64_t offset, std::int64_t bytes);
  [[noreturn]] void fail(const std::string& what) const;

  const Manifest& manifest_;
  const Shard& shard_;
  std::string path_;
  io::File file_;
  std::vector<std::byte> buffer_;
};

}  // namespace weft::ckpt::detail
