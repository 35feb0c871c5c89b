// Tests what the ranks of a session must have in common.
#include "runtime/session.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/check.hpp"
#include "compile/programs.hpp"
#include "exec/scratch.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/small_deck.hpp"

namespace weft::train {
namespace {

TEST(Session, ARankWithAnotherPlanIsFound) {
  comm::World& world = test::world();
  const bool odd = world.rank() > 0 && world.rank() == world.size() - 1;
  const Deck deck =
      test::small_deck(odd ? std::vector<std::string>{"schedule.prefetch=2"} : std::vector<std::string>{});
  runtime::Session session(deck, world);
  const plan::Plan plan = compile::training_plan(deck, session.mesh(), exec::scratch_query(session.matmuls()),
                                                 compile::pass_options(deck, session.mesh()));
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

}  // namespace
}  // namespace weft::train
