// Tests what the ranks of a session must have in common, and the memory that is left for each.
#include "runtime/session.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/device.hpp"
#include "compile/programs.hpp"
#include "exec/scratch.hpp"
#include "kernels/memory.hpp"
#include "runtime/memory_usage.hpp"
#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/shared_deck.hpp"
#include "support/small_deck.hpp"
#ifdef WEFT_FAKECUDA
#include "fakecuda/device.hpp"
#endif

namespace weft::train {
namespace {

/// The last rank's plan differs by a setting; the ranks of a place of a pipe must have one plan.
void expect_that_the_last_is_found(const std::string& mesh) {
  comm::World& world = test::world();
  const bool odd = world.rank() > 0 && world.rank() == world.size() - 1;
  std::vector<std::string> sets{"parallel.mesh=" + mesh};
  if (odd) sets.emplace_back("schedule.prefetch=2");
  const Deck deck = test::small_deck(sets);
  runtime::Session session(deck, world);
  const plan::Plan plan =
      compile::training_plan(deck, session.mesh(), exec::scratch_query(session.matmuls()),
                             compile::pass_options(deck, session.mesh(), session.pipe_rank()));
  if (world.size() == 1) {
    EXPECT_NO_THROW(session.check_same_plan(plan));
    return;
  }
  try {
    session.check_same_plan(plan);
    FAIL() << "rank " << world.rank() << " goes on";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_input);
    const std::string start = "rank " + std::to_string(world.size() - 1) + ": the plan of 'train' is ";
    EXPECT_EQ(std::string(e.what()).substr(0, start.size()), world.rank() == 0 ? start : "");
  }
}

TEST(Session, ARankWithAnotherPlanIsFound) {
  expect_that_the_last_is_found("{ data = 0 }");
  if (test::world().size() == 4) expect_that_the_last_is_found("{ pipe = 2, data = 2 }");
}

#ifdef WEFT_FAKECUDA
/// How many reduce-scatters of gradients a plan has, and for how many of them it has scratch.
std::pair<int, int> reductions(const plan::Plan& plan) {
  int all = 0, with_scratch = 0;
  for (const plan::Instruction& i : plan.instructions) {
    if (i.lane != Lane::reduce || plan.graph.node(i.node).op != ir::Op::reduce_scatter) continue;
    ++all;
    with_scratch += i.scratch.bytes > 0 ? 1 : 0;
  }
  return {all, with_scratch};
}

/// One rank gets no memory that can be registered, or cannot register what it has, or cannot show it to the
/// others, which it may know from the beginning, or find only when there is memory. Plans have scratch for
/// messages where these are sent, and none where gradients are read. The fake of NCCL compares where the
/// operands of all ranks lie.
TEST(Session, MemoryIsRegisteredAndShownByAllRanksOrByNone) {
  comm::World& world = test::world();
  const auto curve = [&](const std::string& peer_reads, const char* fault, const std::string& why = {}) {
    if (fault != nullptr && world.rank() == world.size() - 1) ::setenv("FAKECUDA_FAULT", fault, 1);
    testing::internal::CaptureStderr();
    Trainer trainer(test::shared_deck(world, {test::unit_buckets, "schedule.peer_reads=" + peer_reads}),
                    world);
    const std::string said = testing::internal::GetCapturedStderr();
    ::unsetenv("FAKECUDA_FAULT");
    const bool several = world.size() > 1, reads = peer_reads == "true" && fault == nullptr;
    EXPECT_EQ(fakecuda::objects("windows"), several && reads ? 2 : 0);  // of arena and state
    const bool refused = several && !why.empty() && world.rank() == 0;
    EXPECT_EQ(said.find("schedule.peer_reads has no effect (rank ") != std::string::npos, refused) << said;
    EXPECT_EQ(said.find(why + "); gradients are sent as messages") != std::string::npos, refused) << said;
    const auto [reduced, with_scratch] = reductions(trainer.plan());
    EXPECT_EQ(reduced > 0, several);
    EXPECT_EQ(with_scratch, reads ? 0 : reduced);
    return test::train_steps(trainer, 2);
  };
  const test::Curve registered = curve("false", nullptr);
  EXPECT_EQ(curve("false", "ncclCommRegister"), registered);
  EXPECT_EQ(curve("true", nullptr), registered);
  EXPECT_EQ(curve("true", "ncclMemAlloc", "there is no memory that ranks can share"), registered);
  EXPECT_EQ(curve("true", "ncclDevCommCreate", "FAKECUDA_FAULT asks for it"), registered);
  const std::string near = fmt::format("a rank can read the memory of 1 of {} ranks", world.size());
  EXPECT_EQ(curve("true", "ncclTeamLsa", near), registered);
}

/// The shape is that of no other test, because each is warned of once in a process.
TEST(Session, WhatKernelsWarnOfIsSaidByRankZero) {
  comm::World& world = test::world();
  testing::internal::CaptureStderr();
  const Trainer trainer(
      test::shared_deck(world, {"precision.params=bf16", "model.heads=1", "model.kv_heads=1", "data.seq=11"}),
      world);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("warning: rank 0: attention_grad of batch 1, seq 11, heads 1, kv_heads 1, head_dim 64 "
                      "runs without tensor cores") != std::string::npos,
            world.rank() == 0)
      << said;
  EXPECT_EQ(said.find("tensor cores") != std::string::npos, world.rank() == 0) << said;
}

/// The step without collectives is measured at the start on several ranks, and runs as a graph there. All
/// graphs that a run keeps are those that it launches again.
TEST(Session, KeepsNoGraphOfWhatOnlyItsStartRuns) {
  comm::World& world = test::world();
  const int before = fakecuda::objects("instantiated graphs");
  Trainer trainer(test::shared_deck(world, {test::unit_buckets}), world);
  ASSERT_EQ(trainer.capture(), exec::Capture::captured);
  EXPECT_EQ(fakecuda::objects("instantiated graphs"), before);
  test::train_steps(trainer, 2);
  EXPECT_EQ(fakecuda::objects("instantiated graphs"), before + 1) << "the step's own";
}

/// The fake device has 132 multiprocessors.
TEST(Session, ItsCommunicatorsShareTheDevice) {
  comm::World& world = test::world();
  const auto blocks = [&](const std::string& mesh) {
    const int before = fakecuda::objects("blocks of communicators");
    const runtime::Session session(test::small_deck({"parallel.mesh=" + mesh}), world);
    return fakecuda::objects("blocks of communicators") - before;
  };
  EXPECT_EQ(blocks("{ data = 0 }"), world.size() > 1 ? 2 * 32 : 0);
  if (world.size() == 2) {
    EXPECT_EQ(blocks("{ pipe = 2, data = 1 }"), 5 * 8);
  }
  if (world.size() != 4) return;
  EXPECT_EQ(blocks("{ replica = 2, data = 2 }"), 3 * 32);
  EXPECT_EQ(blocks("{ pipe = 2, data = 2 }"), 2 * 32 + 5 * 8);
}
#endif

/// A machine profile's memory_bytes is what is left for a rank, and not what somebody holds.
TEST(MemoryLeft, IsWhatNobodyHolds) {
  comm::World& world = test::world();
  const std::int64_t before = runtime::least_left_for_a_rank(world);
  EXPECT_GT(before, 0);
  if (device_is_host()) GTEST_SKIP() << "others take and leave memory of the host meanwhile";
  constexpr std::size_t bytes = 64 << 20;
  const kernels::Buffer held(bytes, "session_test");
  EXPECT_LE(runtime::least_left_for_a_rank(world), before - static_cast<std::int64_t>(bytes));
}

}  // namespace
}  // namespace weft::train
