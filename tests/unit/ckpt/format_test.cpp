// Tests checkpoints of each format, as they were written when the format was made (tests/unit/ckpt/format_N;
// two ranks, slabs of 4096 bytes). They must stay loadable: a change that breaks this needs a new format
// version and a reader for both.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ckpt/verify.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

class CheckpointFormat : public ::testing::TestWithParam<int> {
 protected:
  static std::string stored() {
    return fmt::format("{}/tests/unit/ckpt/format_{}", WEFT_SOURCE_DIR, GetParam());
  }
};

TEST_P(CheckpointFormat, StaysReadable) {
  EXPECT_EQ(read_manifest(stored()).version, GetParam());
  EXPECT_TRUE(verify(stored()).empty());
  EXPECT_TRUE(loads_as(stored(), 1, 42));
  EXPECT_TRUE(loads_as(stored(), 3, 42));
  EXPECT_EQ(load_run_state(stored()).deck, sample_run(7).deck);
}

/// Slices without memory get each element once, in the order of the model that loads it.
TEST_P(CheckpointFormat, GivesElementsToWhoeverTakesThem) {
  const auto units = sample_units();
  for (const int ranks : {1, 3})
    for (int rank = 0; rank < ranks; ++rank) {
      RankState taken = empty_state(units, rank, ranks);
      std::vector<StateSlice> slices = taken.slices;
      for (StateSlice& slice : slices) slice.data = nullptr;
      load(read_manifest(stored()), units, slices,
           [&](const StateSlice& slice, std::int64_t at, std::int64_t count, const std::byte* data) {
             std::memcpy(taken.slices[static_cast<std::size_t>(&slice - slices.data())].data + at * 4, data,
                         static_cast<std::size_t>(count) * 4);
           });
      EXPECT_TRUE(same_bytes(taken, filled_state(units, rank, ranks, 42))) << rank << " of " << ranks;
    }
}

INSTANTIATE_TEST_SUITE_P(Version, CheckpointFormat, ::testing::Range(1, format_version + 1));

}  // namespace
}  // namespace weft::ckpt::test
