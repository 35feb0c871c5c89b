#include "ckpt/shard_file.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "ckpt/hdf5.hpp"
#include "io/file.hpp"

namespace weft::ckpt::detail {

namespace {

// Bytes that HDF5 needs for a dataset's header and its link, and for the file's own header. They are
// generous, so that all of it stays in one place.
constexpr std::int64_t header_bytes_a_dataset = 768;
constexpr std::int64_t header_bytes_a_file = 4096;

std::map<std::string, int> index_of(const std::vector<Unit>& units) {
  std::map<std::string, int> index;
  for (const Unit& unit : units) index.emplace(unit.path, static_cast<int>(index.size()));
  return index;
}

std::vector<const StateSlice*> non_empty(std::span<const StateSlice> slices) {
  std::vector<const StateSlice*> result;
  std::set<std::string> names;
  for (const StateSlice& s : slices) {
    if (s.count == 0) continue;
    const std::string name = dataset_name(s.role, s.unit);
    WEFT_VALIDATE(names.insert(name).second, "a rank holds two slices of {}", name);
    result.push_back(&s);
  }
  return result;
}

std::int64_t create_dataset(hid_t file, const StateSlice& s) {
  const std::string name = dataset_name(s.role, s.unit);
  const auto count = static_cast<hsize_t>(s.count);
  const Hid space(CHECK_HDF5(name, H5Screate_simple(1, &count, nullptr)));
  const Hid creation(CHECK_HDF5(name, H5Pcreate(H5P_DATASET_CREATE)));
  CHECK_HDF5(name, H5Pset_layout(creation, H5D_CONTIGUOUS));
  CHECK_HDF5(name, H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY));
  CHECK_HDF5(name, H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER));
  const Hid links(CHECK_HDF5(name, H5Pcreate(H5P_LINK_CREATE)));
  CHECK_HDF5(name, H5Pset_create_intermediate_group(links, 1));
  const Hid type = file_type(s.dtype);
  const Hid dataset(
      CHECK_HDF5(name, H5Dcreate2(file, name.c_str(), type, space, links, creation, H5P_DEFAULT)));
  write_attribute(dataset, "begin", s.begin);
  write_attribute(dataset, "unit_elements", s.unit_elements);
  return static_cast<std::int64_t>(H5Dget_offset(dataset));
}

/// Bytes [begin, end) of the file that a dataset will fill.
using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Adds to `parts` those of the `bytes` written at `offset` that lie in no dataset. A page that HDF5 writes
/// may hold bytes of both kinds.
void add_header(const Ranges& datasets, std::int64_t offset, std::span<const char> bytes,
                std::vector<HeaderPart>& parts) {
  const std::int64_t last = offset + static_cast<std::int64_t>(bytes.size());
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    if (begin < end)
      parts.push_back({begin, end - begin,
                       hash_bytes(bytes.data() + (begin - offset), static_cast<std::size_t>(end - begin))});
  };
  std::int64_t at = offset;
  for (const auto& [begin, end] : datasets) {
    if (begin >= last) break;
    add(at, begin);
    at = std::max(at, std::min(end, last));
  }
  add(at, last);
}

struct Layout {
  std::vector<std::int64_t> offsets;  ///< where each dataset begins
  std::vector<HeaderPart> header;
};

/// Lays the file out, and writes everything but the datasets' bytes.
Layout write_header(io::File& out, const std::vector<const StateSlice*>& slices, std::int64_t alignment) {
  const auto lock = lock_hdf5();
  const auto datasets = static_cast<std::int64_t>(slices.size());
  ScratchFile scratch(header_bytes_a_file + datasets * header_bytes_a_dataset, alignment);
  Layout layout;
  Ranges ranges;
  for (const StateSlice* s : slices) {
    layout.offsets.push_back(create_dataset(scratch.id(), *s));
    const std::int64_t bytes = s->count * static_cast<std::int64_t>(size_of(s->dtype));
    ranges.emplace_back(layout.offsets.back(), layout.offsets.back() + bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  scratch.finish(out, [&](std::int64_t offset, std::span<const char> bytes) {
    add_header(ranges, offset, bytes, layout.header);
  });
  return layout;
}

std::vector<std::uint64_t> write_slabs(io::File& out, const StateSlice& s, std::int64_t offset,
                                       std::int64_t slab_bytes) {
  std::vector<std::uint64_t> checksums;
  const std::int64_t bytes = s.count * static_cast<std::int64_t>(size_of(s.dtype));
  for (std::int64_t at = 0; at < bytes; at += slab_bytes) {
    const auto n = static_cast<std::size_t>(std::min(slab_bytes, bytes - at));
    checksums.push_back(hash_bytes(s.data + at, n));
    out.write_at(s.data + at, n, offset + at);
    out.begin_sync(offset + at, n);
  }
  return checksums;
}

}  // namespace

std::string shard_name(int rank) {
  return fmt::format("shard-{:05}.h5", rank);
}

std::string dataset_name(Role role, const std::string& unit) {
  return fmt::format("/{}/{}", name_of(role), unit);
}

Shard write_shard(const std::string& path, std::span<const StateSlice> slices, const std::vector<Unit>& units,
                  const ShardFileOptions& options) {
  const auto unit_index = index_of(units);
  const auto held = non_empty(slices);
  io::File out(path, io::File::Open::create);
  Layout layout = write_header(out, held, options.alignment);
  if (options.direct_io) out.avoid_cache();
  Shard shard{io::base_name(path), 0, std::move(layout.header), {}};
  for (std::size_t i = 0; i < held.size(); ++i) {
    const StateSlice& s = *held[i];
    const auto unit = unit_index.find(s.unit);
    WEFT_VALIDATE(unit != unit_index.end(), "a slice is of unit {}, which the model does not have", s.unit);
    const std::int64_t slab_bytes = options.slab_bytes / static_cast<std::int64_t>(size_of(s.dtype)) *
                                    static_cast<std::int64_t>(size_of(s.dtype));
    shard.slices.push_back(ShardSlice{s.role, unit->second, s.dtype, s.begin, s.count, layout.offsets[i],
                                      write_slabs(out, s, layout.offsets[i], slab_bytes)});
  }
  shard.bytes = out.size();
  out.sync();
  out.close();
  return shard;
}

}  // namespace weft::ckpt::detail
