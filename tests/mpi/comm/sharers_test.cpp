// Tests how ranks that share a device are counted; no device is needed for that.
#include "comm/nccl/sharers.hpp"

#include <gtest/gtest.h>

namespace weft::comm {
namespace {

TEST(DeviceSharers, AreThoseOfOneHostAndOneDevice) {
  constexpr const char* lines =
      "gpu1 0000:07:00.0\n"
      "gpu1 0000:07:00.0\n"
      "gpu1 0000:0f:00.0\n"
      "gpu2 0000:07:00.0\n";
  EXPECT_EQ(count_sharers(lines, "gpu1 0000:07:00.0"), 2);
  EXPECT_EQ(count_sharers(lines, "gpu1 0000:0f:00.0"), 1);
  EXPECT_EQ(count_sharers(lines, "gpu2 0000:07:00.0"), 1);
  EXPECT_EQ(count_sharers(lines, "gpu3 0000:07:00.0"), 0);
}

TEST(DeviceSharers, AHostWhoseNameEndsLikeAnothersIsAnotherHost) {
  constexpr const char* lines =
      "xgpu1 0000:07:00.0\n"
      "gpu1 0000:07:00.0\n"
      "xxgpu1 0000:07:00.0\n";
  EXPECT_EQ(count_sharers(lines, "gpu1 0000:07:00.0"), 1);
  EXPECT_EQ(count_sharers(lines, "xgpu1 0000:07:00.0"), 1);
}

}  // namespace
}  // namespace weft::comm
