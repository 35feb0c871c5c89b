// What a checkpoint holds: slices of per-unit state vectors, and the scalars that continue a run bitwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/unit.hpp"

namespace weft::ckpt {

/// The state vectors of a parameter, or of a unit of several: the master parameters and Adam's moments.
enum class Role : std::uint8_t { master, exp_avg, exp_avg_sq };
inline constexpr Role all_roles[] = {Role::master, Role::exp_avg, Role::exp_avg_sq};

std::string_view name_of(Role role);
/// The inverse of name_of; throws Error(bad_checkpoint).
Role role_from(std::string_view name);

/// The units of a new checkpoint: one for each parameter, with the parameter's path. So what it holds depends
/// neither on which parameters are gathered together nor on the mesh.
std::vector<Unit> stored_units(const std::vector<Unit>& units);

/// A parameter's elements in the order of a matrix [out, in].
inline std::vector<float> as_out_in(const Parameter& p, const std::vector<float>& stored) {
  std::vector<float> values(stored.size());
  for (std::size_t i = 0; i < stored.size(); ++i)
    values[static_cast<std::size_t>(out_in_index(p, static_cast<std::int64_t>(i)))] = stored[i];
  return values;
}

/// A rank's contiguous slice [begin, begin + count) of one state vector of one unit, in elements without
/// padding. `count` may be 0. `data` is host memory that the
/// caller owns: read by save(), written by load().
struct StateSlice {
  std::string unit;
  Role role = Role::master;
  DType dtype = DType::f32;
  std::int64_t unit_elements = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::byte* data = nullptr;
};

/// A token file of the run.
struct DataFile {
  std::string key;   ///< "data.train" or "data.valid"
  std::string path;  ///< path as the deck named it; the same file may have another path on a later start
  std::int64_t tokens = 0;
  std::uint64_t fingerprint = 0;  ///< data::TokenFile::fingerprint()
  /// Which file on storage (inode, time and size) was read whole and had its checksum; empty where no such
  /// check was made.
  std::string verified;
};

/// The run's scalars. Random numbers are counter-based, keyed by (seed, step, sample), so the three counts
/// below are the generator's whole state.
struct RunState {
  std::int64_t step = 0;    ///< optimizer steps done
  std::int64_t tokens = 0;  ///< tokens trained on, over all ranks
  std::int64_t sample = 0;  ///< global sample index that the next step starts at
  std::uint64_t seed = 0;
  std::string deck;       ///< the resolved deck's text
  std::string model_key;  ///< the model's shape, one "key = value" a line; equal keys mean the same model
  std::string weft_version;
  std::string git_hash;
  int world = 1;     ///< how many ranks saved
  std::string mode;  ///< parallel.mode of the run that saved
  /// The checkpoint that checkpoint.resume named when this run was started from it; empty when it named none.
  std::string origin;
  /// Token files that the run was trained on; empty for formats and runs that name none.
  std::vector<DataFile> data;
};

}  // namespace weft::ckpt
