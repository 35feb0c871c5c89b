// Tests kernels that a device refuses to launch, on a device that only says so.
#include <gtest/gtest.h>

#include <string>

#include "base/check.hpp"
#include "compile/programs.hpp"
#include "exec/executor.hpp"
#include "exec/scratch.hpp"
#include "runtime/session.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"

namespace weft {
namespace {

class Launches : public ::testing::Test {
 protected:
  /// The error of a run on a device that refuses the launch before question `refused`; question 0 comes
  /// before the first kernel.
  std::string end_of(int refused, ExitCode code) {
    asked_ = 0;
    exec::Device device{space_, session_.matmuls(), lane_};
    device.launch_errors = [this, refused] {
      return asked_++ == refused ? std::string("invalid configuration argument") : std::string();
    };
    exec::Executor executor(plan_, device, session_.memory(), 0);
    try {
      executor.run(exec::Run::full);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code);
      return e.what();
    }
    return {};
  }

  const Deck deck_ = test::small_deck();
  const std::unique_ptr<comm::World> world_ = comm::make_self_world();
  runtime::Session session_{deck_, *world_};
  const plan::Plan plan_ = [this] {
    plan::Plan plan =
        compile::logits_plan(deck_, session_.mesh(), 0, exec::scratch_query(session_.matmuls()));
    session_.reserve([&] { return std::vector<const plan::Plan*>{&plan}; });
    return plan;
  }();
  kernels::Space space_;
  exec::ComputeLane lane_{space_};
  int asked_ = 0;
};

TEST_F(Launches, ThatFailEndTheRunWithTheKernelsName) {
  const int kernels = static_cast<int>(plan_.instructions.size());
  ASSERT_GT(kernels, 10);
  for (const int refused : {1, kernels}) {
    const ir::Node& node = plan_.graph.node(plan_.instructions[static_cast<std::size_t>(refused - 1)].node);
    const std::string text = end_of(refused, ExitCode::environment);
    EXPECT_TRUE(text.starts_with("the device refuses the kernel " + std::string(name_of(node.op)) + " of " +
                                 node.module + " in " + std::string(name_of(node.phase)) +
                                 " (invalid configuration argument)"))
        << text;
    EXPECT_EQ(asked_, refused + 1);
  }
}

TEST_F(Launches, ThatFailOutsideAKernelEndTheRun) {
  const int end = static_cast<int>(plan_.instructions.size()) + 1;
  const std::string text = end_of(end, ExitCode::environment);
  EXPECT_TRUE(text.starts_with("the device refuses a launch in the run of 'logits'")) << text;
}

TEST_F(Launches, ThatFailedBeforeTheRunAreNotItsOwn) {
  EXPECT_EQ(end_of(0, ExitCode::ok), "");
  EXPECT_EQ(asked_, static_cast<int>(plan_.instructions.size()) + 2);
}

}  // namespace
}  // namespace weft
