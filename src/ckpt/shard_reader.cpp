#include "ckpt/shard_reader.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "ckpt/locate.hpp"

namespace weft::ckpt::detail {

namespace {

std::string path_of(const Manifest& manifest, const Shard& shard) {
  std::string path = manifest.dir + "/" + shard.file;
  const auto refuse = [&path](const std::string& what) {
    throw io::Incomplete(fmt::format("{} is {}; restore it, or resume from an older checkpoint", path, what));
  };
  const auto bytes = io::file_bytes(path);
  if (!bytes) refuse("missing");
  if (*bytes != shard.bytes)
    refuse(fmt::format("{} ({} bytes instead of {})", *bytes < shard.bytes ? "truncated" : "too long", *bytes,
                       shard.bytes));
  return path;
}

/// The place where elements [from, to) go, if exactly one piece wants any of them, and it wants all.
std::byte* place_of(std::span<const Piece> pieces, std::int64_t from, std::int64_t to, std::int64_t size) {
  std::byte* place = nullptr;
  int wanted = 0;
  for (const Piece& p : pieces) {
    if (p.begin >= to) break;
    if (p.end() <= from) continue;
    ++wanted;
    if (p.out != nullptr && p.begin <= from && p.end() >= to) place = p.out + (from - p.begin) * size;
  }
  return wanted == 1 ? place : nullptr;
}

void hand_out(std::span<const Piece> pieces, std::int64_t from, std::int64_t to, std::int64_t size,
              const std::byte* data) {
  for (const Piece& p : pieces) {
    if (p.begin >= to) break;
    const std::int64_t begin = std::max(p.begin, from), end = std::min(p.end(), to);
    if (begin >= end) continue;
    const std::byte* source = data + (begin - from) * size;
    if (p.out != nullptr)
      std::memcpy(p.out + (begin - p.begin) * size, source, static_cast<std::size_t>((end - begin) * size));
    else
      p.put(begin - p.begin, end - begin, source);
  }
}

/// Runs `check`, and keeps the message of what it throws as a line.
template <class Check>
void keep(std::vector<std::string>& problems, Check&& check) {
  try {
    check();
  } catch (const std::exception& e) {
    problems.emplace_back(e.what());
  }
}

}  // namespace

ShardReader::ShardReader(const Manifest& manifest, const Shard& shard)
    : manifest_(manifest),
      shard_(shard),
      path_(path_of(manifest, shard)),
      file_(path_, io::File::Open::read) {}

std::vector<std::int64_t> ShardReader::offsets_of(const std::vector<std::size_t>& which) const {
  if (manifest_.version == 1) {
    std::vector<const ShardSlice*> slices;
    for (const std::size_t i : which) slices.push_back(&shard_.slices[i]);
    return locate(path_, slices, manifest_.units);
  }
  std::vector<std::int64_t> offsets;
  for (const std::size_t i : which) offsets.push_back(shard_.slices[i].offset);
  return offsets;
}

void ShardReader::read(const ShardSlice& slice, std::int64_t offset, std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  const std::int64_t n = manifest_.slab_bytes / static_cast<std::int64_t>(size_of(slice.dtype));
  std::int64_t next = 0;  // the first slab that has not been read yet
  for (std::size_t first = 0; first < pieces.size(); ++first) {
    next = std::max(next, pieces[first].begin / n);
    for (; next * n < pieces[first].end(); ++next)
      read_slab(slice, offset, next, std::span<const Piece>(pieces).subspan(first));
  }
}

void ShardReader::read_slab(const ShardSlice& slice, std::int64_t offset, std::int64_t slab,
                            std::span<const Piece> pieces) {
  const auto size = static_cast<std::int64_t>(size_of(slice.dtype));
  const std::int64_t n = manifest_.slab_bytes / size;
  const std::int64_t first = slab * n, last = std::min(first + n, slice.count);
  HashStream hash;
  for (std::int64_t from = first; from < last;) {
    const std::int64_t to = std::min(last, from + part_bytes / size);
    const auto bytes = static_cast<std::size_t>((to - from) * size);
    std::byte* place = place_of(pieces, from, to, size);
    if (place == nullptr) {
      if (buffer_.size() < bytes) buffer_.resize(bytes);
      file_.read_at(buffer_.data(), bytes, offset + from * size);
      hash.add(buffer_.data(), bytes);
      hand_out(pieces, from, to, size, buffer_.data());
    } else {
      file_.read_at(place, bytes, offset + from * size);
      hash.add(place, bytes);
    }
    from = to;
  }
  const std::uint64_t stored = slice.checksums.at(static_cast<std::size_t>(slab));
  if (hash.value() == stored) return;
  fail(fmt::format("checksum mismatch in {} of unit {}, elements [{}, {}): {:016x} instead of {:016x}",
                   name_of(slice.role), manifest_.units[static_cast<std::size_t>(slice.unit)].path,
                   slice.begin + first, slice.begin + last, hash.value(), stored));
}

void ShardReader::fail(const std::string& what) const {
  throw Error(
      ExitCode::bad_checkpoint,
      fmt::format("{} is damaged ({}); restore the file, or resume from an older checkpoint", path_, what));
}

std::vector<std::string> ShardReader::damage(bool direct_io) {
  std::vector<std::string> problems;
  file_.drop_cache();
  if (direct_io) file_.avoid_cache();
  keep(problems, [&] { check_slabs(problems); });
  if (manifest_.version == 1) return problems;
  keep(problems, [&] { check_header(problems); });
  keep(problems, [&] { check_holes(problems); });
  return problems;
}

void ShardReader::check_slabs(std::vector<std::string>& problems) {
  std::vector<std::size_t> all(shard_.slices.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::int64_t> offsets = offsets_of(all);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t slab = 0; slab < shard_.slices[i].checksums.size(); ++slab)
      keep(problems, [&] { read_slab(shard_.slices[i], offsets[i], static_cast<std::int64_t>(slab), {}); });
}

std::uint64_t ShardReader::hash_of(std::int64_t offset, std::int64_t bytes) {
  HashStream hash;
  for (std::int64_t done = 0; done < bytes;) {
    const auto n = static_cast<std::size_t>(std::min(bytes - done, part_bytes));
    if (buffer_.size() < n) buffer_.resize(n);
    file_.read_at(buffer_.data(), n, offset + done);
    hash.add(buffer_.data(), n);
    done += static_cast<std::int64_t>(n);
  }
  return hash.value();
}

void ShardReader::check_header(std::vector<std::string>& problems) {
  for (const HeaderPart& part : shard_.header) {
    keep(problems, [&] {
      const std::uint64_t found = hash_of(part.offset, part.bytes);
      if (found != part.checksum)
        fail(fmt::format("checksum mismatch in HDF5's headers, bytes [{}, {}): {:016x} instead of {:016x}",
                         part.offset, part.offset + part.bytes, found, part.checksum));
    });
  }
}

bool ShardReader::is_zero(std::int64_t offset, std::int64_t bytes) {
  const std::int64_t end = offset + bytes;
  for (std::int64_t at = file_.next_data(offset); at < end; at = file_.next_data(at)) {
    const auto n = static_cast<std::size_t>(std::min(end - at, part_bytes));
    if (buffer_.size() < n) buffer_.resize(n);
    file_.read_at(buffer_.data(), n, at);
    if (std::any_of(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(n),
                    [](std::byte b) { return b != std::byte{}; }))
      return false;
    at += static_cast<std::int64_t>(n);
  }
  return true;
}

void ShardReader::check_holes(std::vector<std::string>& problems) {
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  for (const HeaderPart& p : shard_.header) parts.emplace_back(p.offset, p.bytes);
  for (const ShardSlice& s : shard_.slices) parts.emplace_back(s.offset, s.bytes());
  parts.emplace_back(shard_.bytes, 0);
  std::sort(parts.begin(), parts.end());
  std::int64_t at = 0;
  for (const auto& [offset, bytes] : parts) {
    keep(problems, [&, from = at, to = offset] {
      if (!is_zero(from, to - from))
        fail(fmt::format("bytes [{}, {}) between the datasets are not 0", from, to));
    });
    at = offset + bytes;
  }
}

}  // namespace weft::ckpt::detail
