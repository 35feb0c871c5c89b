// What a test needs and not every machine has.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace weft::test {

/// A tool that is missing skips a test. Where WEFT_TEST_TOOLS is "all", as where `jobs/setup.sh --tests` has
/// installed them, it is a failure: else nobody would see that the test does not run any more.
inline testing::TestPartResult::Type missing_tool() {
  const char* promised = std::getenv("WEFT_TEST_TOOLS");
  return promised != nullptr && std::string_view(promised) == "all" ? testing::TestPartResult::kFatalFailure
                                                                    : testing::TestPartResult::kSkip;
}

}  // namespace weft::test

/// Leaves the test, in the place of GTEST_SKIP: `if (...) WEFT_MISSING_TOOL() << "there is no strace";`
#define WEFT_MISSING_TOOL() return GTEST_MESSAGE_("", ::weft::test::missing_tool())
