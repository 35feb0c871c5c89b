// Tests what ranks say about a run directory that is not rank 0's.
#include "train/shared_directory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "base/check.hpp"
#include "comm/host/fake.hpp"
#include "support/small_deck.hpp"
#include "support/temporary_directory.hpp"

namespace weft::train {
namespace {

/// What rank 0 says of six ranks, each on a host of its own; empty: all go on. All of them leave, or none.
std::string said(const std::string& dir, const std::string& mark) {
  const Deck deck = test::small_deck({"run.dir=" + dir, "run.collective_timeout=1s"});
  auto worlds = comm::make_fake_worlds({.size = 6, .ranks_per_host = 1});
  std::string text;
  std::atomic<int> left{0};
  std::vector<std::thread> threads;
  for (auto& world : worlds)
    threads.emplace_back([&, rank = world->rank()] {
      try {
        check_shared_directory(*world, deck, rank == 0 ? mark : std::string());
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::bad_input);
        ++left;
        if (rank == 0) text = e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(left, text.empty() ? 0 : 6);
  return text;
}

TEST(SharedDirectory, IsOneLineForManyHosts) {
  const test::TemporaryDirectory dir;
  std::ofstream(dir / "lock") << "rank 0's mark";
  EXPECT_EQ(said(dir.path(), "rank 0's mark"), "");
  const std::string text = said(dir.path(), "another mark");
  EXPECT_NE(text.find(" and 3 more is not the run directory of rank 0"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0) << text;
}

/// A network file system may show the directory late.
TEST(SharedDirectory, IsWaitedFor) {
  const test::TemporaryDirectory dir;
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::filesystem::create_directory(dir / "run");
    std::ofstream(dir / "run/lock") << "mark";
  });
  EXPECT_EQ(said(dir / "run", "mark"), "");
  late.join();
}

}  // namespace
}  // namespace weft::train
