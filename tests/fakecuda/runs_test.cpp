// Tests how a run of two ranks on devices ends: well, with all closed that it opened; or by an error of one
// of them, soon, with its line and its code. The other one waits meanwhile, in NCCL, for what will not come.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "data/token_format.hpp"
#include "restart/workspace.hpp"

namespace weft::test {
namespace {

class OneRankFails : public Workspace {
 protected:
  /// Trains on two ranks, of which the second has `fault` (docs/fakecuda.md) and the settings `sets`.
  Ended run_with(const std::string& fault, std::vector<std::string> sets = {}) const {
    const std::vector<std::string> both{"debug.hash_every=0", "checkpoint.final=false"};
    sets.insert(sets.begin(), both.begin(), both.end());
    std::vector<std::string> command = weft_each({train("run", both), train("run", sets)});
    const auto colon = std::find(command.begin(), command.end(), ":");
    command.insert(colon + 3, {"-x", "FAKECUDA_FAULT=" + fault});
    return run(command, 90);
  }
  /// Expects the code and one line with the text. Ranks that waited for each other would be ended by the fake
  /// device after 100 s, and by Weft's own watchdog after ten minutes.
  static void expect_end(const Ended& ended, int code, const std::string& text) {
    EXPECT_STATUS(ended, code);
    const auto errors = ended.lines("weft: error:");
    ASSERT_EQ(errors.size(), 1U) << ended.err;
    EXPECT_NE(errors[0].find(text), std::string::npos) << errors[0];
  }
};

/// The first step's tokens are read within the constructor of the run, beside the other rank's collectives.
TEST_F(OneRankFails, BeforeItsStep) {
  std::filesystem::copy_file(path("train.bin"), path("copy.bin"));
  std::fstream file(path("copy.bin"), std::ios::binary | std::ios::in | std::ios::out);
  data::TokenHeader header;
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  file.seekp(static_cast<std::streamoff>(header.tokens_offset));
  file << std::string(header.tokens * header.token_size, '\xff');
  file.close();
  ASSERT_TRUE(file.good());
  expect_end(run_with("none", {"data.train=" + path("copy.bin")}), 2, " is damaged (token 65535 in ");
}

TEST_F(OneRankFails, InTheMiddleOfItsFirstStep) {
  expect_end(run_with("cublasLtMatmul:5"), 6, "failed (cuBLASLt's status of the preset fakecuda)");
}

/// A captured step is launched at most four times before the first step of the run.
TEST_F(OneRankFails, InALaterStep) {
  const Ended ended = run_with("cudaGraphLaunch:8");
  expect_end(ended, 3, "cudaGraphLaunch(");
  EXPECT_FALSE(steps(run_dir("run")).empty()) << ended.err;
}

TEST_F(OneRankFails, BesideItsCalls) {
  expect_end(run_with("ncclCommGetAsyncError:2"), 3, ": NCCL has failed on channel ");
}

using TwoRanks = Workspace;

/// What can be open is counted (tests/fakecuda/memory_test.cpp). The fake of Kokkos keeps a stream, and Weft
/// the handle of cuBLASLt. Where memory cannot be shown, it is returned, and taken anew for another plan.
TEST_F(TwoRanks, CloseAllThatTheyOpen) {
  for (const std::string fault : {"none", "ncclDevCommCreate"}) {
    SCOPED_TRACE(fault);
    std::vector<std::string> command = weft_on(
        2, train("run-" + fault,
                 {"run.steps=3", "data.valid_every=1", "debug.hash_every=0", "schedule.peer_reads=true"}));
    command.insert(command.begin() + 1, {"-x", "FAKECUDA_LEAKS=1", "-x", "FAKECUDA_FAULT=" + fault});
    const Ended ended = run(command, 90);
    EXPECT_STATUS(ended, 0);
    std::vector<std::string> left = ended.lines("fakecuda:");
    std::sort(left.begin(), left.end());
    const std::string handle = "fakecuda: 1 handles of cuBLASLt left at the end",
                      stream = "fakecuda: 1 streams left at the end";
    EXPECT_EQ(left, (std::vector<std::string>{handle, handle, stream, stream}));
  }
}

/// A plan without ranks has scratch for gradients where the run has. The plan for hosts of one rank is that
/// of a run whose ranks cannot read each other's memory, whether they know it before they plan or find it
/// later.
TEST_F(TwoRanks, HaveThePlanThatWasMadeWithoutThem) {
  const std::vector<std::string> sets{"run.steps=1", "optimizer.warmup=0", "debug.hash_every=0",
                                      "schedule.peer_reads=true"};
  const auto planned = [&](const std::string& per_host) {
    std::vector<std::string> arguments{"plan", deck(), "--world", "2", "--ranks-per-host", per_host};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    const Ended ended = run(weft(arguments), 90);
    EXPECT_STATUS(ended, 0);
    const auto hash = ended.out.find(" hash ");
    return hash == std::string::npos ? "no hash" : ended.out.substr(hash + 6, 16);
  };
  const auto trained = [&](const std::string& fault) {
    std::vector<std::string> command = weft_on(2, train("plan-" + fault, sets));
    command.insert(command.begin() + 1, {"-x", "FAKECUDA_FAULT=" + fault});
    const Ended ended = run(command, 90);
    EXPECT_STATUS(ended, 0);
    const auto hash = ended.err.find(" on 2 ranks, plan ");
    return hash == std::string::npos ? "no hash" : ended.err.substr(hash + 18, 16);
  };
  const std::string reads = planned("2"), messages = planned("1");
  EXPECT_NE(reads, messages);
  EXPECT_EQ(trained("none"), reads);
  EXPECT_EQ(trained("ncclTeamLsa"), messages);
  EXPECT_EQ(trained("ncclDevCommCreate"), messages);
}

}  // namespace
}  // namespace weft::test
