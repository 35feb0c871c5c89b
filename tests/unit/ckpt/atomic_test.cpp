// Tests that a save which is killed or fails at any stage leaves a whole checkpoint behind, and that the next
// save clears what it left.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>

#include "base/text.hpp"
#include "ckpt/list.hpp"
#include "ckpt/manifest.hpp"
#include "sample_state.hpp"

namespace weft::ckpt::test {
namespace {

constexpr const char* stages[] = {"prepared", "shard_written", "index_written", "manifest_written",
                                  "renamed",  "latest_moved",  "old_removed"};
/// Whether the new checkpoint has its name after this stage.
bool is_published(const std::string& stage) {
  return stage == "renamed" || stage == "latest_moved" || stage == "old_removed";
}

std::string latest_of(const std::string& dir) {
  return fs::read_symlink(dir + "/latest").string();
}

/// Saves in a child process that dies, without any clean-up, as the stage ends.
void save_and_die_at(const std::string& dir, std::int64_t step, int salt, const std::string& at) {
  const pid_t child = ::fork();
  if (child == 0) {
    SaveOptions options;
    options.keep = 1;
    options.on_stage = [&](const char* stage) {
      if (at == stage) ::_exit(9);
    };
    save_with(1, dir, step, salt, options);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 9) << "the stage " << at << " was not reached";
}

TEST(CheckpointAtomicity, KilledAtAnyStageAWholeCheckpointIsFound) {
  for (const std::string stage : stages) {
    SCOPED_TRACE(stage);
    TemporaryDirectory dir;
    ASSERT_TRUE(save_with(1, dir.path(), 1, 1).front().ok);
    save_and_die_at(dir.path(), 2, 2, stage);
    const int expected = is_published(stage) ? 2 : 1;
    const auto found = find_latest(dir.path());
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(load_run_state(*found).step, expected);
    EXPECT_TRUE(loads_as(*found, 3, expected));
    EXPECT_TRUE(fs::exists(dir.path() + "/latest/manifest.json")) << "`latest` points nowhere";
    // The next save goes through, and clears the leftovers.
    SaveOptions options;
    options.keep = 1;
    ASSERT_TRUE(save_with(2, dir.path(), 3, 3, options).front().ok);
    EXPECT_TRUE(loads_as(*find_latest(dir.path()), 1, 3));
    EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000003", "latest"}));
  }
}

TEST(CheckpointAtomicity, KilledWhileReplacingTheSameStep) {
  for (const std::string stage : stages) {
    SCOPED_TRACE(stage);
    TemporaryDirectory dir;
    ASSERT_TRUE(save_with(1, dir.path(), 1, 1).front().ok);
    save_and_die_at(dir.path(), 1, 2, stage);
    EXPECT_TRUE(loads_as(*find_latest(dir.path()), 1, is_published(stage) ? 2 : 1));
    ASSERT_TRUE(save_with(1, dir.path(), 1, 3).front().ok);
    EXPECT_TRUE(loads_as(*find_latest(dir.path()), 1, 3));
    EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000001", "latest"}));
  }
}

TEST(CheckpointAtomicity, FailingAtAnyStageOfAnyRankIsReported) {
  for (const std::string stage : stages) {
    for (const int failing : {0, 2}) {
      if (failing != 0 && stage != "shard_written") continue;  // only rank 0 has the other stages
      SCOPED_TRACE(stage);
      TemporaryDirectory dir;
      ASSERT_TRUE(save_with(3, dir.path(), 1, 1).front().ok);
      const auto fail = [&](int rank, SaveOptions& options) {
        if (rank != failing) return;
        options.on_stage = [&](const char* at) {
          if (stage == at) throw std::runtime_error("Input/output error");
        };
      };
      const auto reports = save_with(3, dir.path(), 2, 2, {}, fail);
      for (const auto& report : reports) EXPECT_EQ(report.ok, is_published(stage)) << report.reason;
      EXPECT_NE(reports[0].reason.find("Input/output error"), std::string::npos) << reports[0].reason;
      if (!is_published(stage)) {
        EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000001", "latest"}));
        for (const auto& report : reports) EXPECT_FALSE(report.reason.empty());
        if (failing == 2) {
          EXPECT_EQ(reports[0].reason, "rank 2: Input/output error");
        }
      }
      EXPECT_TRUE(loads_as(*find_latest(dir.path()), 2, is_published(stage) ? 2 : 1));
      EXPECT_TRUE(fs::exists(dir.path() + "/latest/manifest.json"));
    }
  }
}

TEST(CheckpointAtomicity, LeftoversAreIgnoredAndListed) {
  TemporaryDirectory dir;
  fs::create_directories(dir.path() + "/step-00000009.tmp");
  EXPECT_EQ(find_latest(dir.path()), std::nullopt);
  ASSERT_TRUE(save_with(1, dir.path(), 1, 1).front().ok);
  EXPECT_FALSE(fs::exists(dir.path() + "/step-00000009.tmp"));
  fs::create_directories(dir.path() + "/step-00000009.tmp");
  fs::create_directories(dir.path() + "/step-00000008");  // it has no manifest
  EXPECT_EQ(find_latest(dir.path()), dir.path() + "/step-00000001");
  const std::string table = list(dir.path());
  EXPECT_NE(table.find("step-00000009.tmp         unfinished"), std::string::npos) << table;
  EXPECT_NE(table.find("step-00000008           8 damaged: "), std::string::npos) << table;
}

TEST(CheckpointAtomicity, TheListSaysWhatEachOneHolds) {
  TemporaryDirectory dir;
  ASSERT_TRUE(save_with(3, dir.path(), 7, 1).front().ok);
  const std::string table = list(dir.path());
  std::istringstream row(table.substr(table.find("step-00000007")));
  const std::vector<std::string> words{std::istream_iterator<std::string>(row), {}};
  std::int64_t elements = 0;
  for (const Unit& unit : sample_units())
    for (const Parameter& p : unit.parameters) elements += element_count(p.shape);
  std::istringstream size(bytes_text(elements * 4 * std::ssize(all_roles)));
  std::vector<std::string> expected{"step-00000007", "7", std::to_string(7 * 4096)};
  expected.insert(expected.end(), std::istream_iterator<std::string>(size), {});
  const std::string saved_at = read_manifest(dir.path() + "/step-00000007").saved_at;
  for (const char* word : {"3", "fsdp", saved_at.c_str(), "whole,", "latest"}) expected.emplace_back(word);
  EXPECT_EQ(words, expected) << table;
}

TEST(CheckpointAtomicity, TheNewestStay) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.keep = 2;
  for (int step = 1; step <= 4; ++step) {
    ASSERT_TRUE(save_with(1, dir.path(), step, step, options).front().ok);
    EXPECT_EQ(latest_of(dir.path()), "step-0000000" + std::to_string(step));
  }
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"step-00000003", "step-00000004", "latest"}));
  const std::string table = list(dir.path());
  EXPECT_NE(table.find("step-00000004"), std::string::npos) << table;
  EXPECT_NE(table.find("whole, latest"), std::string::npos) << table;
  options.keep = 0;
  for (int step = 5; step <= 7; ++step) ASSERT_TRUE(save_with(1, dir.path(), step, step, options).front().ok);
  EXPECT_EQ(names_in(dir.path()).size(), 6U);
}

TEST(CheckpointAtomicity, AfterARollBackTheNewTimelineIsTheNewest) {
  TemporaryDirectory dir;
  SaveOptions options;
  options.keep = 3;
  for (const int step : {100, 200, 300})
    ASSERT_TRUE(save_with(1, dir.path(), step, step, options).front().ok);
  ASSERT_TRUE(save_with(1, dir.path(), 150, 150, options).front().ok);  // the run resumed from step 100
  EXPECT_EQ(find_latest(dir.path()), dir.path() + "/step-00000150");
  EXPECT_EQ(names_in(dir.path()),
            (std::set<std::string>{"step-00000150", "step-00000200", "step-00000300", "latest"}));
}

}  // namespace
}  // namespace weft::ckpt::test
