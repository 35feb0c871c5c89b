// A checkpoint of format 1, as it was written when the format was made (tests/unit/ckpt/format_1; two ranks,
// slabs of 4096 bytes). It must stay loadable: a change that breaks this needs a new format version and a
// reader for both.
#include <gtest/gtest.h>

#include "ckpt/verify.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

TEST(CheckpointFormat, Version1StaysReadable) {
  const std::string stored = std::string(WEFT_SOURCE_DIR) + "/tests/unit/ckpt/format_1";
  EXPECT_TRUE(verify(stored).empty());
  EXPECT_TRUE(loads_as(stored, 1, 42));
  EXPECT_TRUE(loads_as(stored, 3, 42));
  EXPECT_EQ(load_run_state(stored).deck, sample_run(7).deck);
}

}  // namespace
}  // namespace weft::ckpt::test
