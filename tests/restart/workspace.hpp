// What a user has before `weft train`: text, token files made from it by `weft data tokenize`, and a deck.
// Also reads what a run leaves.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "restart/job.hpp"
#include "support/temporary_directory.hpp"

namespace weft::test {

/// Expects an exit status, and shows the whole stderr of a command that did not end in this way.
#define EXPECT_STATUS(ended, code) EXPECT_TRUE(::weft::test::ended_with((ended), (code)))
inline testing::AssertionResult ended_with(const Ended& ended, int code) {
  if (ended.in_time && ended.status == code) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "status " << ended.status
                                     << (ended.in_time ? "" : " (killed at the deadline)") << "\n"
                                     << ended.err;
}

class Workspace : public testing::Test {
 protected:
  /// Makes some English-like documents, their token files, and the deck of tests/support with files in the
  /// place of synthetic tokens.
  void SetUp() override;

  std::string path(const std::string& name) const { return directory_ / name; }
  std::string run_dir(const std::string& run) const { return path(run); }
  std::string checkpoints(const std::string& run) const { return path(run) + "/checkpoints"; }
  std::string deck() const { return path("deck.toml"); }
  /// The command `weft train DECK --set run.dir=RUN --set ...`.
  std::vector<std::string> train(const std::string& run, const std::vector<std::string>& sets = {}) const;
  /// Gives `run` the checkpoints of `of`, and nothing else of it.
  void copy_checkpoints(const std::string& of, const std::string& run) const;

 private:
  TemporaryDirectory directory_;
};

void write_file(const std::string& path, const std::string& content);
/// Reads the lines of a metrics.jsonl: first those that are not saves, and below the saves. A torn last line
/// is left out.
std::vector<nlohmann::json> metrics(const std::string& run_dir);
std::vector<nlohmann::json> saves(const std::string& run_dir);
/// What must not depend on interruptions or the number of ranks, for steps after `after`: a string for each
/// line, with kind, step, loss, gradient norm, rate, tokens, state hash and bits per byte.
std::vector<std::string> curve(const std::string& run_dir, std::int64_t after = 0);
/// The steps of the training lines, in the order of the file.
std::vector<std::int64_t> steps(const std::string& run_dir);
/// The list 1, 2, ... n.
std::vector<std::int64_t> steps_to(std::int64_t n);
std::int64_t last_step(const std::string& run_dir);
/// The content of every file below `dir`, by its path.
std::map<std::string, std::string> contents(const std::string& dir);
/// Flips a bit of the byte at this share of the file's length.
void flip_bit(const std::string& path, double place);
/// Waits until the run's metrics have the step, or the end of its save. Returns false when the seconds are
/// over.
bool wait_for_step(const std::string& run_dir, std::int64_t step, double seconds = 30);
bool wait_for_save(const std::string& run_dir, std::int64_t step, double seconds = 30);

}  // namespace weft::test
