// Tests how `weft sample` on two devices ends by an error of one of them: soon, with its line and its code.
// The other one waits meanwhile for what will not come.
#include <algorithm>

#include "restart/workspace.hpp"

namespace weft::test {
namespace {

using OneRankSamples = Workspace;

/// The second rank has the last layers. Ranks that waited for each other would be ended by the fake device
/// after 100 s.
TEST_F(OneRankSamples, AndFails) {
  EXPECT_STATUS(run(weft(train("run", {"run.steps=2", "data.valid_every=0", "debug.hash_every=0"})), 90), 0);
  const std::vector<std::string> sample{
      "sample", "--checkpoint", checkpoints("run"), "--tokenizer", "byte", "--tokens", "4"};
  std::vector<std::string> command = weft_each({sample, sample});
  const auto colon = std::find(command.begin(), command.end(), ":");
  command.insert(colon + 3, {"-x", "FAKECUDA_FAULT=cublasLtMatmul:3"});
  const Ended ended = run(command, 90);
  EXPECT_STATUS(ended, 6);
  const auto errors = ended.lines("weft: error:");
  ASSERT_EQ(errors.size(), 1U) << ended.err;
  EXPECT_NE(errors[0].find("failed (cuBLASLt's status of the preset fakecuda)"), std::string::npos)
      << errors[0];
}

}  // namespace
}  // namespace weft::test
