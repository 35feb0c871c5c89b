#include "base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

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
  log::record_errors({"the first"}, 100);
  std::array<char, 4096> text{};
  const auto got = static_cast<std::size_t>(std::max<ssize_t>(::read(pipe, text.data(), text.size()), 0));
  std::fputs(std::string(text.data(), got).c_str(), stderr);
  ::fcntl(pipe, F_SETFL, O_NONBLOCK);
  while (::write(pipe, text.data(), text.size()) > 0) {
  }
  ::fcntl(pipe, F_SETFL, 0);
  log::record_errors({"the second"}, 0.1);
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
  EXPECT_EXIT(log_to_a_pipe_that_fills(path), testing::ExitedWithCode(3), "error the first\n$");
}

/// Adds a file after another while a thread logs numbers. Returns whether the files together have all numbers
/// from some one on, each once and in their order.
bool add_files_beside_a_thread() {
  const test::TemporaryDirectory directory;
  const std::string prefix = directory / "log";
  constexpr int files = 50;
  std::atomic<int> next{0};
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) log::info("{}", next++);
  });
  for (int i = 0; i < files; ++i) {
    const int seen = next;
    log::add_file(prefix + std::to_string(i));
    while (next < seen + 3) std::this_thread::yield();
  }
  ends = true;
  other.join();
  int expected = -1;
  for (int i = 0; i < files; ++i) {
    std::istringstream text(test::read_file(prefix + std::to_string(i)));
    for (std::string line; std::getline(text, line);) {
      const int number = std::stoi(line.substr(line.rfind(' ')));
      if (expected >= 0 && number != expected) return false;
      expected = number + 1;
    }
  }
  return expected == next;
}

TEST(LogDeathTest, AFileIsAddedWhileAThreadLogs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(add_files_beside_a_thread() ? 0 : 1), testing::ExitedWithCode(0), "");
}

/// No drawing of another thread comes between the end of the progress line and the error below it. The errors
/// are long, so that it would have the time.
TEST(LogTest, AnErrorStandsBelowTheProgressLineAtOnce) {
  constexpr int errors = 5;
  const std::string error(std::size_t{4} << 20, 'x');
  std::atomic<int> drawn{0};
  std::atomic<bool> ends{false};
  testing::internal::CaptureStderr();
  std::thread other([&] {
    for (; !ends; ++drawn) {
      log::show_progress_line(stderr, "step");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  for (int i = 0; i < errors; ++i) {
    for (const int seen = drawn; drawn < seen + 2;) std::this_thread::yield();
    log::write_error(error);
  }
  ends = true;
  other.join();
  log::end_progress_line();
  const std::string text = testing::internal::GetCapturedStderr();
  const std::string expected = "\rstep\x1b[K\nweft: error: rank 0: xxx";
  int found = 0;
  for (auto at = text.find(expected); at != std::string::npos; at = text.find(expected, at + 1)) ++found;
  EXPECT_EQ(found, errors);
}

}  // namespace
}  // namespace weft
