#include "ckpt/locate.hpp"

#include <fmt/format.h>

#include "base/check.hpp"
#include "base/dtype.hpp"
#include "ckpt/hdf5.hpp"
#include "ckpt/shard_file.hpp"

namespace weft::ckpt::detail {

std::vector<std::int64_t> locate(const std::string& path, const std::vector<const ShardSlice*>& slices,
                                 const std::vector<Unit>& units) {
  const auto lock = lock_hdf5();
  const Hid file = open_for_reading(path);
  std::vector<std::int64_t> offsets;
  offsets.reserve(slices.size());
  for (const ShardSlice* s : slices) {
    const std::string name = dataset_name(s->role, units[static_cast<std::size_t>(s->unit)].path);
    const std::string place = path + name;
    const Hid dataset(CHECK_HDF5(place, H5Dopen2(file, name.c_str(), H5P_DEFAULT)));
    const auto stored = static_cast<std::int64_t>(H5Dget_storage_size(dataset));
    const std::int64_t expected = s->count * static_cast<std::int64_t>(size_of(s->dtype));
    const haddr_t offset = H5Dget_offset(dataset);
    if (stored != expected || offset == HADDR_UNDEF) {
      throw Error(ExitCode::bad_checkpoint,
                  fmt::format("{} is damaged ({} bytes instead of {})", place, stored, expected));
    }
    offsets.push_back(static_cast<std::int64_t>(offset));
  }
  return offsets;
}

}  // namespace weft::ckpt::detail
