#include "io/step_lines.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "support/temporary_directory.hpp"

namespace weft::io {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string line_of(std::int64_t step, std::size_t bytes = 0) {
  return nlohmann::json{{"step", step}, {"text", std::string(bytes, 'x')}}.dump() + "\n";
}

TEST(StepLines, OfLaterStepsAndTornOnesAreDropped) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "metrics.jsonl";
  std::ofstream(path) << line_of(1) << line_of(3) << "[1]\n" << line_of(2) << line_of(4) << "{\"step\": 2";
  prepare_step_lines(path, 3);
  EXPECT_EQ(text_of(path), line_of(1) + line_of(3) + line_of(2));
  const auto written = std::filesystem::last_write_time(path);
  prepare_step_lines(path, 3);  // nothing is left to drop, and the file stays as it is
  EXPECT_EQ(std::filesystem::last_write_time(path), written);
  EXPECT_EQ(read_step_lines(path).size(), 3U);
  prepare_step_lines(dir / "none", 3);
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
}

/// Only a whole object with a whole number as its own step is a line of ours.
TEST(StepLines, AStepIsTheObjectsOwn) {
  const test::TemporaryDirectory dir;
  const std::string path = dir / "metrics.jsonl";
  const std::string good =
      "{\"a\": {\"step\": 9}, \"step\": 1}\n{\"step\": 2, \"b\": [{\"step\": 9}, [], {}]}\n"
      "{\"step\": 9, \"step\": 3}\n";
  const std::string bad =
      "{\"a\": {\"step\": 1}}\n[{\"step\": 1}]\n{\"step\": \"1\"}\n{\"step\": 1.0}\n{\"step\": null}\n"
      "{\"step\": 1, \"step\": {}}\n{\"step\": [1]}\n{\"step\": 1, \"lo{\"step\": 2}\n{\"step\": 1}}\n1\n\n";
  std::ofstream(path) << bad << good << bad;
  prepare_step_lines(path, 3);
  EXPECT_EQ(text_of(path), good);
  EXPECT_EQ(read_step_lines(path).size(), 3U);
}

/// ranks.jsonl of 16,384 ranks has half a megabyte a line. The process may not take more memory than it has.
TEST(StepLines, AreReadOneAtATime) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space";
#endif
  const test::TemporaryDirectory dir;
  const std::string path = dir / "ranks.jsonl";
  std::size_t kept = 0;
  {
    std::ofstream out(path);
    for (int step = 0; step < 512; ++step) {
      const std::string line = line_of(step, std::size_t{1} << 19);
      out << line;
      if (step <= 510) kept += line.size();
    }
  }
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  rlimit limit = before;
  limit.rlim_cur =
      static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
  ::setrlimit(RLIMIT_AS, &limit);
  EXPECT_NO_THROW(prepare_step_lines(path, 510));
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(std::filesystem::file_size(path), kept);
}

/// A directory can be opened and not read, as a file of a disk that fails.
TEST(StepLines, AReadErrorIsNotTheEndOfTheFile) {
  const test::TemporaryDirectory dir;
  std::filesystem::create_directory(dir / "metrics.jsonl");
  EXPECT_THROW(read_step_lines(dir / "metrics.jsonl"), Error);
  EXPECT_THROW(prepare_step_lines(dir / "metrics.jsonl", 3), Error);
  EXPECT_THROW(read_step_lines(dir / "none"), Error);
}

}  // namespace
}  // namespace weft::io
