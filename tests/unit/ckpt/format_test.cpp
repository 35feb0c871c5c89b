// Tests checkpoints of each format, as they were written when the format was made (tests/unit/ckpt/format_N;
// two ranks, slabs of 4096 bytes). They must stay loadable: a change that breaks this needs a new format
// version and a reader for both.
#include <gtest/gtest.h>

#include "ckpt/verify.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

class CheckpointFormat : public ::testing::TestWithParam<int> {};

TEST_P(CheckpointFormat, StaysReadable) {
  const std::string stored =
      std::string(WEFT_SOURCE_DIR) + "/tests/unit/ckpt/format_" + std::to_string(GetParam());
  EXPECT_EQ(read_manifest(stored).version, GetParam());
  EXPECT_TRUE(verify(stored).empty());
  EXPECT_TRUE(loads_as(stored, 1, 42));
  EXPECT_TRUE(loads_as(stored, 3, 42));
  EXPECT_EQ(load_run_state(stored).deck, sample_run(7).deck);
}

INSTANTIATE_TEST_SUITE_P(Version, CheckpointFormat, ::testing::Range(1, format_version + 1));

}  // namespace
}  // namespace weft::ckpt::test
