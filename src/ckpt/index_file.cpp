#include "ckpt/index_file.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "ckpt/boxes.hpp"
#include "ckpt/hdf5.hpp"
#include "ckpt/shard_file.hpp"

namespace weft::ckpt::detail {

namespace {

struct Source {
  const Shard* shard;
  const ShardSlice* slice;
};

/// sources[role][unit]: the slices of a state vector, by their first element.
using Sources = std::vector<std::vector<std::vector<Source>>>;

Sources collect(const Manifest& manifest, const std::vector<Shard>& shards) {
  Sources sources(std::size(all_roles), std::vector<std::vector<Source>>(manifest.units.size()));
  for (const Shard& shard : shards) {
    for (const ShardSlice& slice : shard.slices) {
      sources[static_cast<std::size_t>(slice.role)][static_cast<std::size_t>(slice.unit)].push_back(
          {&shard, &slice});
    }
  }
  for (auto& units : sources) {
    for (auto& unit : units) {
      std::sort(unit.begin(), unit.end(),
                [](const Source& a, const Source& b) { return a.slice->begin < b.slice->begin; });
    }
  }
  return sources;
}

std::vector<hsize_t> extents(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

/// Maps the part of `parameter` that the source holds.
void map_source(hid_t creation, hid_t space, const Shape& shape, const Parameter& parameter,
                const Source& source, const std::string& dataset) {
  const ShardSlice& slice = *source.slice;
  const std::int64_t begin = std::max(parameter.offset, slice.begin) - parameter.offset;
  const std::int64_t end =
      std::min(parameter.offset + element_count(shape), slice.begin + slice.count) - parameter.offset;
  if (begin >= end) return;
  const auto length = static_cast<hsize_t>(slice.count);
  const Hid from(CHECK_HDF5(dataset, H5Screate_simple(1, &length, nullptr)));
  for (const Box& box : boxes_of_run(shape, begin, end)) {
    const auto start = extents(box.start);
    const auto count = extents(box.count);
    CHECK_HDF5(dataset,
               H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr));
    const auto first = static_cast<hsize_t>(parameter.offset + box.first - slice.begin);
    const auto elements = static_cast<hsize_t>(box.elements);
    CHECK_HDF5(dataset, H5Sselect_hyperslab(from, H5S_SELECT_SET, &first, nullptr, &elements, nullptr));
    CHECK_HDF5(dataset, H5Pset_virtual(creation, space, source.shard->file.c_str(), dataset.c_str(), from));
  }
}

void create_virtual(hid_t group, const Parameter& parameter, const std::vector<Source>& sources,
                    const std::string& dataset) {
  const Shape shape = parameter.shape.empty() ? Shape{1} : parameter.shape;
  const auto dims = extents(shape);
  const Hid space(
      CHECK_HDF5(parameter.path, H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr)));
  const Hid whole(CHECK_HDF5(parameter.path, H5Scopy(space)));
  const Hid creation(CHECK_HDF5(parameter.path, H5Pcreate(H5P_DATASET_CREATE)));
  for (const Source& source : sources) map_source(creation, space, shape, parameter, source, dataset);
  const Hid type = file_type(sources.front().slice->dtype);
  const Hid created(CHECK_HDF5(parameter.path, H5Dcreate2(group, parameter.path.c_str(), type, whole,
                                                          H5P_DEFAULT, creation, H5P_DEFAULT)));
}

std::string group_name(Role role) {
  return role == Role::master ? std::string("/model") : fmt::format("/optimizer/{}", name_of(role));
}

void write_group(hid_t file, Role role, const std::vector<Unit>& units,
                 const std::vector<std::vector<Source>>& sources) {
  const std::string name = group_name(role);
  const Hid links(CHECK_HDF5(name, H5Pcreate(H5P_LINK_CREATE)));
  CHECK_HDF5(name, H5Pset_create_intermediate_group(links, 1));
  const Hid group(CHECK_HDF5(name, H5Gcreate2(file, name.c_str(), links, H5P_DEFAULT, H5P_DEFAULT)));
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const Parameter& parameter : units[u].parameters) {
      create_virtual(group, parameter, sources[u], dataset_name(role, units[u].path));
    }
  }
}

/// About how many bytes the index will take: a header for each dataset, and up to three mappings for each
/// slice that the dataset touches.
std::int64_t metadata_bytes(const Manifest& manifest, const std::vector<Shard>& shards) {
  std::int64_t datasets = 0;
  std::int64_t mappings = 0;
  for (const Unit& unit : manifest.units)
    datasets += static_cast<std::int64_t>(std::size(all_roles) * unit.parameters.size());
  for (const Shard& shard : shards) mappings += 3 * static_cast<std::int64_t>(shard.slices.size());
  return 4096 + 512 * datasets + 160 * (datasets + mappings);
}

void write_attributes(hid_t root, const Manifest& manifest) {
  const RunState& run = manifest.run;
  write_attribute(root, "format_version", std::int64_t{format_version});
  write_attribute(root, "weft_version", run.weft_version);
  write_attribute(root, "git_hash", run.git_hash);
  write_attribute(root, "saved_at", manifest.saved_at);
  write_attribute(root, "step", run.step);
  write_attribute(root, "tokens", run.tokens);
  write_attribute(root, "sample", run.sample);
  write_attribute(root, "seed", run.seed);
  write_attribute(root, "rng",
                  std::string("philox4x32-10, keyed by (seed, name), counted by element or sample"));
  write_attribute(root, "world", std::int64_t{run.world});
  write_attribute(root, "mode", run.mode);
  write_attribute(root, "model_key", run.model_key);
  write_attribute(root, "deck", run.deck);
}

}  // namespace

void write_index(const std::string& path, const Manifest& manifest, const std::vector<Shard>& shards) {
  const Sources sources = collect(manifest, shards);
  io::File out(path, io::File::Open::create);
  {
    const auto lock = lock_hdf5();
    ScratchFile scratch(metadata_bytes(manifest, shards), 1);
    for (Role role : all_roles) {
      const auto& of_role = sources[static_cast<std::size_t>(role)];
      const bool present =
          std::any_of(of_role.begin(), of_role.end(), [](const auto& unit) { return !unit.empty(); });
      if (present) write_group(scratch.id(), role, manifest.units, of_role);
    }
    write_attributes(scratch.id(), manifest);
    scratch.finish(out);
  }
  out.sync();
  out.close();
}

}  // namespace weft::ckpt::detail
