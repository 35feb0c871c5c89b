#include "base/log.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace weft {
namespace {

/// It runs in a process of its own, because the log belongs to the process.
TEST(LogDeathTest, AFullDiskIsOneWarning) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        log::add_file("/dev/full");
        for (int i = 0; i < 3; ++i) log::record("to the file only");
        log::info("{}", "to both");
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^weft: warning: rank 0: [^\n]*/dev/full: No space left on device; the run goes on without these lines "
      "of its "
      "log\nto both\n$");
}

}  // namespace
}  // namespace weft
