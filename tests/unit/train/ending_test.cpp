// Tests when a run ends because its time is up, and how long a save that is under way still takes.
#include "train/ending.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "comm/host/fake.hpp"
#include "compile/programs.hpp"
#include "exec/scratch.hpp"
#include "job/process_start.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"
#include "support/temporary_directory.hpp"
#include "train/saver.hpp"

namespace weft::train {
namespace {

/// The system counts a process's life in hundredths of a second.
constexpr double tick = 0.02;
/// How long a busy machine may stop a test between two lines.
constexpr double busy = 10;

/// How long this process has lived: a second or more, so that it shows whether a run's clock began with it.
double aged() {
  const double age = job::seconds_since_process_start();
  if (age < 1) std::this_thread::sleep_for(std::chrono::duration<double>(1 - age));
  return job::seconds_since_process_start();
}

Deck deck_with(double walltime, double collective_timeout) {
  Deck deck = test::small_deck();
  deck.run.walltime = walltime;
  deck.run.collective_timeout = collective_timeout;
  return deck;
}

TEST(Ending, NeedsTwoOfTheLongestStepsAndWhatIsStillToCome) {
  struct Validation {
    std::optional<double> rounds;  ///< of the one that is due
    std::optional<double> took;    ///< what earlier ones took
    double seconds;
  };
  for (const double save : {0.0, 5.0})
    for (const Validation& v : {Validation{{}, {}, 0}, {{}, 7, 0}, {4, {}, 4 * 3}, {4, 7, 7}}) {
      Ending ending(deck_with(0, 0), 0);
      for (const double step : {1, 3, 2}) ending.step_took(step);
      if (v.took)
        for (const double shorter : {2.0, 0.0, 1.0}) ending.validation_took(*v.took - shorter);
      EXPECT_EQ(ending.seconds_to_next_save({v.rounds, save}), 2 * 3 + save + v.seconds);
    }
}

/// The time that the process has lived counts, and so do the two steps and the save that are still to come.
TEST(Ending, IsNearWhereTheNextSaveWouldBeTooLate) {
  const auto world = comm::make_self_world();
  const double needed = 2 * 3 + 5;
  const auto reason_at = [&](double walltime) {
    Ending ending(deck_with(walltime, 0), 0);
    ending.step_took(3);
    return ending.reason(*world, 0, {{}, 5});
  };
  const double age = aged();
  EXPECT_EQ(reason_at(age + needed - tick), "run.walltime is near");
  EXPECT_EQ(reason_at(age + needed + busy), "");
  EXPECT_EQ(reason_at(0), "") << "there is no limit";
}

/// One rank's save takes longer than that of the others.
TEST(Ending, IsNearForAllRanksOrForNone) {
  const double age = aged();
  auto worlds = comm::make_fake_worlds({.size = 3, .ranks_per_host = 1});
  std::vector<std::string> said(worlds.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < worlds.size(); ++rank)
    threads.emplace_back([&, rank] {
      const Ending ending(deck_with(age + 500, 0), static_cast<int>(rank));
      said[rank] = ending.reason(*worlds[rank], 0, {{}, rank == 1 ? 1000.0 : 0.0});
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(said, std::vector<std::string>(worlds.size(), "run.walltime is near"));
}

/// Others would count a rank that waits for longer than the timeout as hanging.
TEST(Ending, PatienceIsHalfOfTheCollectiveTimeoutAndWithinTheWalltime) {
  for (const double most : {1.0, 60.0})
    for (const double timeout : {0.0, 10.0}) {
      const double patient = timeout > 0 ? std::min(most, timeout / 2) : most;
      EXPECT_EQ(Ending(deck_with(0, timeout), 0).patience(most, 1e6), patient);
      for (const double needed : {0.0, 40.0}) {
        const double age = aged(), left = 30 - needed;
        const double seconds = Ending(deck_with(age + 30, timeout), 0).patience(most, needed);
        EXPECT_LE(seconds, std::min(patient, left + tick)) << most << " " << timeout << " " << needed;
        EXPECT_GE(seconds, std::min(patient, left - busy)) << most << " " << timeout << " " << needed;
      }
    }
}

/// What is left of a save counts from its beginning, and never below zero.
TEST(Saver, KnowsWhatIsLeftOfTheSaveUnderWay) {
  const test::TemporaryDirectory dir;
  Deck deck = test::small_deck({"checkpoint.every=1"});
  deck.run.dir = dir.path();
  const auto world = comm::make_self_world();
  runtime::Session session(deck, *world);
  plan::Plan plan = compile::training_plan(deck, session.mesh(), exec::scratch_query(session.matmuls()),
                                           compile::pass_options(deck, session.mesh()));
  session.reserve([&] { return std::vector<const plan::Plan*>{&plan}; });
  const auto executor = session.bind(std::move(plan));
  runtime::ModelState state(session, executor->plan());
  state.initialize(1, 0.02, deck.model.layers);
  report::Report report(deck, 1, {}, {}, {});
  Saver saver(deck, session, state, report, describe_run(deck, *world), true);
  EXPECT_EQ(saver.seconds_to_end(1000), 0) << "none is under way";
  const double begin = seconds_now();
  saver.begin({1, 12, 12});
  const double left = saver.seconds_to_end(1000), passed = seconds_now() - begin;
  EXPECT_LE(left, 1000);
  EXPECT_GE(left, 1000 - passed);
  EXPECT_EQ(saver.seconds_to_end(0), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(saver.seconds_to_end(1000), 1000 - 0.05) << "the clock of a save stands still";
  saver.finish();
  EXPECT_EQ(saver.seconds_to_end(1000), 0) << "it has ended";
  EXPECT_GE(saver.longest_seconds().value_or(0), 0.05);
}

}  // namespace
}  // namespace weft::train
