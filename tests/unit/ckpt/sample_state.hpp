// Makes a small model's state, cut over simulated ranks: threads that meet at a barrier, and write real
// files.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/load.hpp"
#include "ckpt/save.hpp"

namespace weft::ckpt::test {

namespace fs = std::filesystem;

/// A directory that one test has for itself, and that is removed with it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string path() const { return path_; }

 private:
  std::string path_;
};

/// The names of what lies in a directory.
std::set<std::string> names_in(const std::string& dir);

/// Units whose sizes are no multiples of 256. One has 3 dimensions, one is smaller than a rank's 256
/// elements, and one has a matrix [in, out], which the stored formats 1 and 2 have as [out, in].
std::vector<Unit> sample_units();
/// Units with the same parameters: fewer of them, and in another order.
std::vector<Unit> regrouped_units();
RunState sample_run(std::int64_t step);
/// A manifest's text under the checksum that it has: anyone can compute it.
std::string with_checksum(std::string text);

/// The value of an element, as it is counted in [out, in]. It depends on the parameter's path, so that every
/// grouping has the same values. `salt` tells states apart.
float value_of(Role role, const std::string& parameter, std::int64_t element, int salt);
std::vector<float> whole_parameter(Role role, const Parameter& parameter, int salt);
/// The same in the order in which the parameter is stored.
std::vector<float> stored_parameter(Role role, const Parameter& parameter, int salt);

/// The slices that one rank has of all units and roles, and the memory behind them.
struct RankState {
  std::vector<StateSlice> slices;
  std::vector<std::vector<std::byte>> memory;
};
RankState empty_state(const std::vector<Unit>& units, int rank, int ranks, DType dtype = DType::f32);
RankState filled_state(const std::vector<Unit>& units, int rank, int ranks, int salt,
                       DType dtype = DType::f32);
bool same_bytes(const RankState& a, const RankState& b);

/// Runs one thread for each rank, and joins them.
void with_ranks(int ranks, const std::function<void(const Hooks&)>& run_rank);

/// Saves with `ranks` threads. `option_of` changes the options of one rank.
std::vector<SaveReport> save_with(int ranks, const std::string& dir, std::int64_t step, int salt,
                                  SaveOptions options = {},
                                  const std::function<void(int rank, SaveOptions&)>& option_of = {},
                                  DType dtype = DType::f32);

/// Loads with `ranks` ranks, and says whether every byte is what filled_state(salt) holds.
bool loads_as(const std::string& checkpoint, int ranks, int salt,
              const std::vector<Unit>& units = sample_units(), DType dtype = DType::f32);

/// The message that `f` throws as a weft::Error of code bad_checkpoint. The test fails when `f` does not
/// throw one, or when its message is not one line.
std::string error_of(const std::function<void()>& f);

}  // namespace weft::ckpt::test
