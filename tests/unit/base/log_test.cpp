#include "base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/temporary_directory.hpp"

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

/// Logs to a pipe, prints to the terminal what arrived there, fills the pipe, and logs once more.
[[noreturn]] void log_to_a_pipe_that_fills(const std::string& path) {
  const int pipe = ::open(path.c_str(), O_RDWR);  // so that nobody waits for a reader
  log::add_file(path);
  log::record_last({"the first"}, 100);
  std::array<char, 4096> text{};
  const auto got = static_cast<std::size_t>(std::max<ssize_t>(::read(pipe, text.data(), text.size()), 0));
  std::fputs(std::string(text.data(), got).c_str(), stderr);
  ::fcntl(pipe, F_SETFL, O_NONBLOCK);
  while (::write(pipe, text.data(), text.size()) > 0) {
  }
  ::fcntl(pipe, F_SETFL, 0);
  log::record_last({"the second"}, 0.1);
  std::fflush(stdout);  // as a run that ends does; to flush all files would wait for this one
  std::fflush(stderr);
  std::_Exit(3);
}

/// A pipe that nobody reads is as storage that does not answer. What a run says last goes there where it can,
/// and the run ends in any case.
TEST(LogDeathTest, TheLastLinesWaitForTheirStorageOnlySoLong) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const test::TemporaryDirectory directory;
  const std::string path = directory / "log.txt";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EXIT(log_to_a_pipe_that_fills(path), testing::ExitedWithCode(3), "info the first\n$");
}

}  // namespace
}  // namespace weft
