#include "ckpt/fetch.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "base/check.hpp"
#include "ckpt/file.hpp"
#include "ckpt/shard_file.hpp"

namespace weft::ckpt::detail {

namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_checkpoint, message);
}

/// A part of a request that one dataset holds: elements [begin, begin + count) of the dataset.
struct Read {
  int shard;
  int slice;
  std::int64_t begin;
  std::int64_t count;
  std::byte* out;
};

struct Place {
  std::int64_t begin;
  int shard;
  int slice;
};

/// The datasets of each state vector that is asked for, by their first element.
using Places = std::map<std::pair<Role, int>, std::vector<Place>>;

Places collect(const Manifest& manifest, const std::vector<Request>& requests) {
  std::set<std::pair<Role, int>> wanted;
  for (const Request& request : requests) wanted.emplace(request.role, request.unit);
  Places places;
  for (int r = 0; r < static_cast<int>(manifest.shards.size()); ++r) {
    const auto& slices = manifest.shards[static_cast<std::size_t>(r)].slices;
    for (int i = 0; i < static_cast<int>(slices.size()); ++i) {
      const ShardSlice& s = slices[static_cast<std::size_t>(i)];
      if (wanted.contains({s.role, s.unit})) places[{s.role, s.unit}].push_back({s.begin, r, i});
    }
  }
  for (auto& [key, list] : places) {
    std::sort(list.begin(), list.end(), [](const Place& a, const Place& b) { return a.begin < b.begin; });
  }
  return places;
}

const ShardSlice& slice_at(const Manifest& manifest, int shard, int slice) {
  return manifest.shards[static_cast<std::size_t>(shard)].slices[static_cast<std::size_t>(slice)];
}

void split(const Manifest& manifest, const Places& places, const Request& request, std::vector<Read>& reads) {
  const std::string& unit = manifest.units.at(static_cast<std::size_t>(request.unit)).path;
  const auto found = places.find({request.role, request.unit});
  if (found == places.end())
    fail(fmt::format("{} holds no {} of unit {} (weights alone start a new run: model.init)", manifest.dir,
                     name_of(request.role), unit));
  const auto& list = found->second;
  std::int64_t at = request.begin;
  const std::int64_t end = request.begin + request.count;
  auto place = std::upper_bound(list.begin(), list.end(), at,
                                [](std::int64_t x, const Place& p) { return x < p.begin; });
  if (place != list.begin()) --place;
  for (; at < end && place != list.end(); ++place) {
    const ShardSlice& s = slice_at(manifest, place->shard, place->slice);
    if (at < s.begin || at >= s.begin + s.count) break;
    if (s.dtype != request.dtype) {
      fail(fmt::format("{} of unit {} is {} in {} (and {} here) use the same [precision]", name_of(s.role),
                       unit, weft::name_of(s.dtype), manifest.dir, weft::name_of(request.dtype)));
    }
    const std::int64_t n = std::min(end, s.begin + s.count) - at;
    const std::int64_t written = (at - request.begin) * static_cast<std::int64_t>(size_of(s.dtype));
    reads.push_back({place->shard, place->slice, at - s.begin, n, request.out + written});
    at += n;
  }
  if (at < end)
    fail(fmt::format("{} lacks element {} of {} of unit {}", manifest.dir, at, name_of(request.role), unit));
}

/// One open shard file, with the last slab that had to be read for a part of it.
class ShardReader {
 public:
  ShardReader(const Manifest& manifest, const Shard& shard)
      : manifest_(manifest), path_(check(manifest, shard)), file_(path_, File::Open::read) {}

  File& file() { return file_; }

  void find(const std::vector<const ShardSlice*>& slices) {
    const auto offsets = locate(path_, slices, manifest_.units);
    for (std::size_t i = 0; i < slices.size(); ++i) offsets_[slices[i]] = offsets[i];
  }

  void read(const ShardSlice& slice, std::int64_t begin, std::int64_t count, std::byte* out) {
    const auto size = static_cast<std::int64_t>(size_of(slice.dtype));
    const std::int64_t end = begin + count;
    for (std::int64_t slab = begin / slab_elements(slice); slab * slab_elements(slice) < end; ++slab) {
      const std::int64_t first = slab * slab_elements(slice);
      const std::int64_t last = std::min(first + slab_elements(slice), slice.count);
      const std::int64_t from = std::max(first, begin);
      const std::int64_t to = std::min(last, end);
      std::byte* target = out + (from - begin) * size;
      if (from == first && to == last) {
        read_slab(slice, slab, target, last - first);
      } else {
        std::memcpy(target, buffered(slice, slab, last - first) + (from - first) * size,
                    static_cast<std::size_t>((to - from) * size));
      }
    }
  }

  /// Reads and checks one slab; the bytes are dropped.
  void check_slab_at(const ShardSlice& slice, std::int64_t slab) {
    buffered(slice, slab, std::min(slab_elements(slice), slice.count - slab * slab_elements(slice)));
  }

 private:
  static std::string check(const Manifest& manifest, const Shard& shard) {
    std::string path = manifest.dir + "/" + shard.file;
    const auto bytes = file_bytes(path);
    if (!bytes) fail(fmt::format("{} is missing; restore it, or resume from an older checkpoint", path));
    if (*bytes != shard.bytes) {
      fail(fmt::format("{} is {} ({} bytes instead of {}); restore it, or resume from an older checkpoint",
                       path, *bytes < shard.bytes ? "truncated" : "too long", *bytes, shard.bytes));
    }
    return path;
  }

  std::int64_t slab_elements(const ShardSlice& slice) const {
    return manifest_.slab_bytes / static_cast<std::int64_t>(size_of(slice.dtype));
  }

  void read_slab(const ShardSlice& slice, std::int64_t slab, std::byte* out, std::int64_t elements) {
    const auto size = static_cast<std::int64_t>(size_of(slice.dtype));
    const std::int64_t n = slab_elements(slice);
    file_.read_at(out, static_cast<std::size_t>(elements * size), offsets_.at(&slice) + slab * n * size);
    check_slab(slice, n, slab, out, manifest_.units[static_cast<std::size_t>(slice.unit)].path, path_);
  }

  const std::byte* buffered(const ShardSlice& slice, std::int64_t slab, std::int64_t elements) {
    if (held_slice_ != &slice || held_slab_ != slab) {
      held_slice_ = nullptr;
      buffer_.resize(static_cast<std::size_t>(elements) * size_of(slice.dtype));
      read_slab(slice, slab, buffer_.data(), elements);
      held_slice_ = &slice;
      held_slab_ = slab;
    }
    return buffer_.data();
  }

  const Manifest& manifest_;
  std::string path_;
  File file_;
  std::map<const ShardSlice*, std::int64_t> offsets_;
  std::vector<std::byte> buffer_;
  const ShardSlice* held_slice_ = nullptr;
  std::int64_t held_slab_ = 0;
};

}  // namespace

void fetch(const Manifest& manifest, const std::vector<Request>& requests) {
  const Places places = collect(manifest, requests);
  std::vector<Read> reads;
  for (const Request& request : requests) {
    if (request.count > 0) split(manifest, places, request, reads);
  }
  // By file, then ascending in it, so that each file is opened once and read forward, and a shared slab is
  // read once.
  std::sort(reads.begin(), reads.end(), [](const Read& a, const Read& b) {
    return std::tie(a.shard, a.slice, a.begin) < std::tie(b.shard, b.slice, b.begin);
  });
  for (auto first = reads.begin(); first != reads.end();) {
    const auto last =
        std::find_if(first, reads.end(), [&](const Read& r) { return r.shard != first->shard; });
    ShardReader reader(manifest, manifest.shards[static_cast<std::size_t>(first->shard)]);
    std::vector<const ShardSlice*> needed;
    for (auto r = first; r != last; ++r) {
      const ShardSlice* slice = &slice_at(manifest, r->shard, r->slice);
      if (needed.empty() || needed.back() != slice) needed.push_back(slice);
    }
    reader.find(needed);
    for (auto r = first; r != last; ++r)
      reader.read(slice_at(manifest, r->shard, r->slice), r->begin, r->count, r->out);
    first = last;
  }
}

DType dtype_of(const Manifest& manifest, Role role, int unit) {
  for (const Shard& shard : manifest.shards) {
    for (const ShardSlice& slice : shard.slices) {
      if (slice.role == role && slice.unit == unit) return slice.dtype;
    }
  }
  return DType::f32;
}

std::vector<std::string> find_damage(const Manifest& manifest, const Shard& shard, bool direct_io) {
  std::vector<std::string> problems;
  try {
    ShardReader reader(manifest, shard);
    reader.file().drop_cache();
    if (direct_io) reader.file().avoid_cache();
    std::vector<const ShardSlice*> all;
    for (const ShardSlice& slice : shard.slices) all.push_back(&slice);
    reader.find(all);
    for (const ShardSlice& slice : shard.slices) {
      for (std::size_t slab = 0; slab < slice.checksums.size(); ++slab) {
        try {
          reader.check_slab_at(slice, static_cast<std::int64_t>(slab));
        } catch (const std::exception& e) {
          problems.emplace_back(e.what());
        }
      }
    }
  } catch (const std::exception& e) {
    problems.emplace_back(e.what());
  }
  return problems;
}

}  // namespace weft::ckpt::detail
