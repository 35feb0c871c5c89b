// Reads one open shard file. Slabs are read in parts through a small buffer, and their checksums taken on the
// way, so that memory does not grow with the slabs. Only files of format 1 are opened with HDF5.
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

/// How much of a slab is read at a time: a multiple of all elements' sizes, and as much as one transfer
/// without the page cache.
inline constexpr std::int64_t part_bytes = std::int64_t{8} << 20;

/// Elements [begin, begin + count) of a slice that somebody wants. They go to `out`, or in parts to `put`,
/// which is told how many elements of the piece come before the part, and how many are in it.
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
  /// outlive this object.
  ShardReader(const Manifest& manifest, const Shard& shard);

  /// Where each slice of the shard that `which` numbers begins in the file; read() needs it.
  std::vector<std::int64_t> offsets_of(const std::vector<std::size_t>& which) const;
  /// Fills the pieces of one slice, whose bytes begin at `offset`, and reads each slab that they touch once.
  /// Throws Error(bad_checkpoint) that names state and elements of the first slab that is damaged; what it
  /// has filled until then must not be used.
  void read(const ShardSlice& slice, std::int64_t offset, std::vector<Piece> pieces);
  /// Every damage of the file, a line for each: in headers, in slabs, and bytes other than 0 between them.
  /// The file's pages are first dropped from the page cache; with `direct_io` it is read past that cache.
  std::vector<std::string> damage(bool direct_io);

 private:
  void read_slab(const ShardSlice& slice, std::int64_t offset, std::int64_t slab,
                 std::span<const Piece> pieces);
  void check_slabs(std::vector<std::string>& problems);
  void check_header(std::vector<std::string>& problems);
  void check_holes(std::vector<std::string>& problems);
  /// The XXH3-64 of a stretch of the file, read through the buffer.
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
