// Tests requests to stop. Signals are tested in processes of their own, because handlers belong to the
// process.
#include "job/stop_request.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/temporary_directory.hpp"

namespace weft::job {
namespace {

TEST(StopRequestTest, TheFileIsSeenByRankZeroAndCountsMost) {
  const test::TemporaryDirectory dir;
  EXPECT_EQ(StopRequest(dir.path(), 0).seen(), 0);
  std::ofstream(dir / "STOP").close();
  StopRequest first(dir.path(), 0);
  const double request = first.seen();
  EXPECT_EQ(first.text(request), "the file " + (dir / "STOP"));
  EXPECT_TRUE(StopRequest::by_file(request));
  EXPECT_EQ(StopRequest(dir.path(), 1).seen(), 0);
  StopRequest(dir.path(), 1).remove_file();
  EXPECT_TRUE(std::filesystem::exists(dir / "STOP"));
  first.remove_file();
  EXPECT_FALSE(std::filesystem::exists(dir / "STOP"));
  first.remove_file();  // there is no warning: see LogDeathTest
  EXPECT_EQ(StopRequest(dir.path(), 0).seen(), 0);
}

[[noreturn]] void tell_requests_after(int signal_number) {
  catch_stop_signals();
  ::raise(signal_number);
  ::raise(SIGUSR2);  // the first signal is the one that counts
  StopRequest third("run", 3), twelfth("run", 12);
  const double most = std::max(third.seen(), twelfth.seen());
  std::fprintf(stderr, "%s, %d\n", third.text(most).c_str(), StopRequest::by_file(most) ? 1 : 0);
  std::exit(0);
}

TEST(StopRequestDeathTest, SignalsAreToldWithTheLowestRank) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(tell_requests_after(SIGTERM), testing::ExitedWithCode(0), "^SIGTERM on rank 3, 0\n$");
  EXPECT_EXIT(tell_requests_after(SIGHUP), testing::ExitedWithCode(0), "^SIGHUP on rank 3, 0\n$");
  EXPECT_EXIT(tell_requests_after(SIGUSR1), testing::ExitedWithCode(0), "^SIGUSR1 on rank 3, 0\n$");
  EXPECT_EXIT(tell_requests_after(SIGUSR2), testing::ExitedWithCode(0), "^SIGUSR2 on rank 3, 0\n$");
}

TEST(StopRequestDeathTest, ASecondTermEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto term_twice = [](int milliseconds) {
    catch_stop_signals();
    ::raise(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ::raise(SIGTERM);
    std::exit(7);
  };
  EXPECT_EXIT(term_twice(0), testing::ExitedWithCode(7), "");  // this is one request, told twice
  EXPECT_EXIT(term_twice(1100), testing::KilledBySignal(SIGTERM), "");
}

TEST(StopRequestDeathTest, AFailedRunEndsAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto term = [] {
    catch_stop_signals();
    release_stop_signals();
    ::raise(SIGTERM);
  };
  EXPECT_EXIT(term(), testing::KilledBySignal(SIGTERM), "");
}

TEST(StopRequestDeathTest, AnIgnoredHangupStaysIgnored) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang_up = [] {
    ::signal(SIGHUP, SIG_IGN);
    catch_stop_signals();
    ::raise(SIGHUP);
    std::exit(StopRequest("run", 1).seen() == 0 ? 0 : 1);
  };
  EXPECT_EXIT(hang_up(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft::job
