// Tests the program on a processor that is older than the one it was built for.
#include "base/processor.hpp"

#include <filesystem>

#include "restart/workspace.hpp"
#include "support/missing.hpp"

namespace weft::test {
namespace {

/// A command that runs on a processor emulated by Debian's qemu-user.
std::vector<std::string> on(const std::string& processor, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{"qemu-x86_64", "-cpu", processor, WEFT_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

class AnotherProcessor : public Workspace {
 protected:
  void SetUp() override {
    Workspace::SetUp();
    if (run({"sh", "-c", "command -v qemu-x86_64"}).status != 0)
      WEFT_MISSING_TOOL() << "there is no qemu-x86_64";
    if ((processor::built_for & processor::named("avx")) == 0) GTEST_SKIP() << "built for every processor";
  }
};

TEST_F(AnotherProcessor, IsToldByOneLineAndNothingIsWritten) {
  for (const auto& arguments : {std::vector<std::string>{"--version"}, train("run")}) {
    const Ended ended = run(on("Nehalem", arguments));
    EXPECT_STATUS(ended, 6);
    const auto errors = ended.lines("weft: error:");
    ASSERT_EQ(errors.size(), 1U) << ended.err;
    EXPECT_TRUE(
        errors[0].starts_with("weft: error: this program was built for another processor (this one lacks "))
        << errors[0];
    EXPECT_NE(errors[0].find("avx"), std::string::npos) << errors[0];
    EXPECT_EQ(errors[0].find("sse4.2"), std::string::npos) << "Nehalem has it: " << errors[0];
    EXPECT_FALSE(std::filesystem::exists(run_dir("run")));
  }
}

}  // namespace
}  // namespace weft::test
