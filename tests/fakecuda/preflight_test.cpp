// Tests that a run which needs more of a device than there is ends before it takes or writes anything, and
// that one which needs less goes on. Devices have little memory here, so that a run which is not refused
// takes little.
#include <cmath>
#include <filesystem>
#include <regex>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

class Preflight : public Workspace {
 protected:
  /// Where a run is: each of its ranks has the device (rank mod devices).
  struct Machine {
    int ranks = 1, devices = 8;
    double mib = 16384;  ///< of each device
  };
  Ended train_on(const Machine& on, const std::string& run_name, const std::vector<std::string>& sets) const {
    std::vector<std::string> command = weft_on(on.ranks, train(run_name, sets));
    for (const std::string& variable : {"FAKECUDA_DEVICES=" + std::to_string(on.devices),
                                        "FAKECUDA_MEMORY=" + std::to_string(std::lround(on.mib))})
      command.insert(command.begin() + 1, {"-x", variable});
    return run(command, 90);
  }
  /// Whether a run of one step takes it.
  testing::AssertionResult trains_a_step(const Machine& on, const std::string& run_name) const {
    const testing::AssertionResult ended = ended_with(train_on(on, run_name, one_step), 0);
    if (!ended || steps(run_dir(run_name)) == steps_to(1)) return ended;
    return testing::AssertionFailure() << run_name << " has other steps than the first";
  }
  /// Expects that the run is refused, and gives the line.
  std::string expect_refusal(const Machine& on, const std::string& run_name,
                             const std::vector<std::string>& sets) const {
    const auto before = contents(path(""));
    const Ended ended = train_on(on, run_name, sets);
    EXPECT_STATUS(ended, 2);
    EXPECT_TRUE(contents(path("")) == before) << "something was written";
    EXPECT_FALSE(std::filesystem::exists(run_dir(run_name)));
    const auto errors = ended.lines("weft: error:");
    EXPECT_EQ(errors.size(), 1U) << ended.err;
    return errors.empty() ? "" : errors[0];
  }
  /// Expects in a line what the run needs, GiB that the device has for a rank, and what helps.
  static void expect_numbers(const std::string& line, double least_needed, const std::string& has) {
    const std::regex form(
        R"(weft: error: \S*/deck\.toml: not enough memory: the run needs (\d+\.\d\d) GiB on a rank )"
        R"(\(state (\d+\.\d\d), arena \d+\.\d\d, baseline \d+\.\d\d\), a GPU's rank (\d+\.\d\d) GiB )"
        R"(more than it holds already, and it has (\d+\.\d\d) GiB; use more GPUs, )"
        R"(parallel\.mode = "fsdp", schedule\.recompute = "full", or a smaller data\.batch or data\.seq)");
    std::smatch found;
    ASSERT_TRUE(std::regex_match(line, found, form)) << line;
    EXPECT_GE(std::stod(found[2]), least_needed) << "the state";
    EXPECT_GE(std::stod(found[1]), std::stod(found[2]));
    EXPECT_GE(std::stod(found[3]), std::stod(found[2]));
    EXPECT_EQ(found[4], has);
  }

  /// What was planned for a rank of a run, in MiB.
  double planned_mib(const std::string& run_name) const {
    return metrics(run_dir(run_name)).at(0).at("planned_bytes").get<double>() / (1 << 20);
  }

  const std::vector<std::string> one_step{
      "run.steps=1",        "optimizer.warmup=0",     "data.global_batch=2",
      "data.valid_every=0", "checkpoint.final=false", "debug.hash_every=0"};
  /// A model whose state is 2.2 GiB.
  const std::vector<std::string> large{"model.dim=1024",   "model.layers=11", "model.heads=16",
                                       "model.kv_heads=8", "model.ffn=2816",  "model.vocab=8192"};
};

TEST_F(Preflight, RefusesWhatNeedsMoreThanTheDeviceHas) {
  expect_numbers(expect_refusal({.mib = 2048}, "run", large), 2.1, "2.00");
}

/// Ranks of one device have a share of it each. Half of this state would find room on it, were it not shared.
TEST_F(Preflight, RefusesWhatNeedsMoreThanTheShareOfARank) {
  expect_numbers(expect_refusal({.ranks = 2, .devices = 1, .mib = 2048}, "run", large), 1.05, "1.00");
}

TEST_F(Preflight, GoesOnInFivePercentMoreAndNotInFivePercentLess) {
  ASSERT_TRUE(trains_a_step({}, "free"));
  const double needed = planned_mib("free");
  ASSERT_GT(needed, 20) << "a few MiB must tell the two apart";
  EXPECT_TRUE(trains_a_step({.mib = 1.05 * needed}, "enough"));
  const std::string line = expect_refusal({.mib = 0.95 * needed}, "less", one_step);
  EXPECT_NE(line.find("not enough memory: the run needs "), std::string::npos) << line;
}

TEST_F(Preflight, GoesOnWhereTheSharesOfTheRanksAreEnough) {
  ASSERT_TRUE(trains_a_step({.ranks = 2}, "free"));
  const double needed = planned_mib("free");
  EXPECT_TRUE(trains_a_step({.ranks = 2, .devices = 2, .mib = 1.5 * needed}, "apart"));
  EXPECT_TRUE(trains_a_step({.ranks = 2, .devices = 1, .mib = 2.1 * needed}, "shared"));
  const std::string line = expect_refusal({.ranks = 2, .devices = 1, .mib = 1.5 * needed}, "less", one_step);
  EXPECT_NE(line.find("not enough memory: the run needs "), std::string::npos) << line;
}

}  // namespace
}  // namespace weft::test
