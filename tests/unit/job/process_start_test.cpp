#include "job/process_start.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "support/temporary_directory.hpp"

namespace weft::job {
namespace {

TEST(ProcessStart, IsThatOfEachProcess) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double mine = seconds_since_process_start();
  EXPECT_GE(mine, 0.3 - 0.01);  // the system counts in hundredths
  EXPECT_LT(mine, 3600);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_GE(seconds_since_process_start(), mine + 0.1);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(seconds_since_process_start() < mine ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "a child is younger";
  EXPECT_GE(start_of(::getpid()), start_of(::getppid()));
  EXPECT_EQ(start_of(-1), 0);
}

TEST(ProcessStart, AProcessHasEndedBeforeItsParentAsksHow) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t how{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &how, WEXITED | WNOWAIT), 0);
  EXPECT_GT(start_of(child), 0);
  EXPECT_TRUE(has_ended(child));
  EXPECT_FALSE(has_ended(::getpid()));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(has_ended(child)) << "its number is free";
}

/// After SIGKILL the first thread may end while another one waits for its storage. Here that one sleeps.
TEST(ProcessStart, AProcessHasNotEndedBeforeItsLastThread) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] { std::this_thread::sleep_for(std::chrono::seconds(60)); }).detach();
    ::syscall(SYS_exit, 0);  // this thread only; pthread_exit would unwind through the test
  }
  const std::string stat = "/proc/" + std::to_string(child) + "/stat";
  const auto first_has_ended = [&] { return test::read_file(stat).find(") Z ") != std::string::npos; };
  for (int i = 0; i < 1000 && !first_has_ended(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(first_has_ended());
  EXPECT_FALSE(has_ended(child));
  ::kill(child, SIGKILL);
  siginfo_t how{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &how, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(how.si_status, SIGKILL);
  EXPECT_TRUE(has_ended(child));
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace weft::job
