// A small model's state, cut over simulated ranks: threads that meet at a barrier, and write real files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/load.hpp"
#include "ckpt/save.hpp"

namespace weft::ckpt::test {

namespace fs = std::filesystem;

/// A directory of the test's own, removed with it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string path() const { return path_; }

 private:
  std::string path_;
};

/// Sizes that are no multiple of 256, one of 3 dimensions, one smaller than a rank's 256 elements.
std::vector<Unit> sample_units();
/// The same parameters in fewer units, in another order.
std::vector<Unit> regrouped_units();
RunState sample_run(std::int64_t step);

/// The value of an element; depends on the parameter's path, so that every grouping has the same. `salt`
/// tells states apart.
float value_of(Role role, const std::string& parameter, std::int64_t element, int salt);
std::vector<float> whole_parameter(Role role, const Parameter& parameter, int salt);

/// One rank's slices of all units and roles, and the memory behind them.
struct RankState {
  std::vector<StateSlice> slices;
  std::vector<std::vector<std::byte>> memory;
};
RankState empty_state(const std::vector<Unit>& units, int rank, int ranks, DType dtype = DType::f32);
RankState filled_state(const std::vector<Unit>& units, int rank, int ranks, int salt,
                       DType dtype = DType::f32);
bool same_bytes(const RankState& a, const RankState& b);

/// Runs a thread a rank, and joins them.
void with_ranks(int ranks, const std::function<void(const Hooks&)>& run_rank);

/// Saves with `ranks` threads. `option_of` adapts the options of one rank.
std::vector<SaveReport> save_with(int ranks, const std::string& dir, std::int64_t step, int salt,
                                  SaveOptions options = {},
                                  const std::function<void(int rank, SaveOptions&)>& option_of = {},
                                  DType dtype = DType::f32);

/// Loads with `ranks` ranks, and says whether every byte is what filled_state(salt) holds.
bool loads_as(const std::string& checkpoint, int ranks, int salt,
              const std::vector<Unit>& units = sample_units(), DType dtype = DType::f32);

/// The message that `f` throws as a weft::Error of code bad_checkpoint; fails the test otherwise, or when it
/// isn't one line.
std::string error_of(const std::function<void()>& f);

}  // namespace weft::ckpt::test
