// Tests how the communicators of a rank share its device; no device is needed for that.
#include "comm/nccl/blocks.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace weft::comm {
namespace {

/// The lanes whose bits are set in `which`.
std::vector<Lane> lanes_of(unsigned which) {
  std::vector<Lane> lanes;
  for (std::size_t i = 0; i < communication_lanes.size(); ++i)
    if ((which >> i & 1U) != 0) lanes.push_back(communication_lanes[i]);
  return lanes;
}

TEST(Blocks, OfAllLanesTogetherLeaveATenthOfTheDevice) {
  constexpr unsigned all = 1U << communication_lanes.size();
  int full = 0;
  for (const int multiprocessors : {132, 108, 20})
    for (unsigned which = 1; which < all; ++which) {
      const std::vector<Lane> open = lanes_of(which);
      SCOPED_TRACE(::testing::Message() << multiprocessors << " multiprocessors, lanes " << which);
      int sum = 0;
      for (const Lane lane : open) {
        const int blocks = most_blocks(lane, open, multiprocessors);
        ASSERT_GE(blocks, 1);
        ASSERT_LE(blocks, 32);
        ASSERT_TRUE(std::has_single_bit(static_cast<unsigned>(blocks))) << blocks;
        sum += blocks;
      }
      ASSERT_LE(sum, multiprocessors - multiprocessors / 10);
      full += 2 * sum > multiprocessors ? 1 : 0;
    }
  EXPECT_GT(full, 4500) << "of 6141 combinations: most use half of a device and more";
}

TEST(Blocks, AreNcclsOwnWhereFewLanesAreOpen) {
  const std::vector<Lane> replicas{Lane::gather, Lane::reduce, Lane::replica};
  for (const Lane lane : replicas) {
    EXPECT_EQ(most_blocks(lane, replicas, 132), 32);
    EXPECT_EQ(most_blocks(lane, replicas, 108), 32);
    EXPECT_EQ(most_blocks(lane, replicas, 20), 4);
  }
}

TEST(Blocks, MessagesBetweenStagesHaveAQuarterOfThoseOfCollectives) {
  const std::vector<Lane> all(communication_lanes.begin(), communication_lanes.end());
  for (const Lane lane : all) {
    const bool few =
        lane == Lane::pipe || lane == Lane::copies || axis_of(lane).empty();  // messages have no axis
    EXPECT_EQ(most_blocks(lane, all, 132), few ? 4 : 16) << name_of(lane);
    EXPECT_EQ(most_blocks(lane, all, 108), few ? 2 : 8) << name_of(lane);
    EXPECT_EQ(most_blocks(lane, all, 20), few ? 1 : 2) << name_of(lane);
  }
}

/// An instance of a device may have fewer multiprocessors than there are lanes.
TEST(Blocks, EveryLaneHasOne) {
  const std::vector<Lane> all(communication_lanes.begin(), communication_lanes.end());
  for (const int multiprocessors : {1, 2, 11})
    for (const Lane lane : all) EXPECT_EQ(most_blocks(lane, all, multiprocessors), 1);
}

}  // namespace
}  // namespace weft::comm
