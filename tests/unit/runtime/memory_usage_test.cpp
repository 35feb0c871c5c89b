// Tests what a process and its host say of their memory, and what a run is refused for.
#include "runtime/memory_usage.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/device.hpp"
#include "comm/host/fake.hpp"
#include "compile/programs.hpp"
#include "runtime/planned_memory.hpp"
#include "runtime/preflight.hpp"
#include "support/small_deck.hpp"
#include "support/temporary_directory.hpp"

namespace weft::runtime {
namespace {

constexpr std::int64_t mib = 1 << 20;

TEST(MemoryUsage, FollowsPagesThatAreTouchedAndGivenBack) {
  constexpr std::size_t bytes = 128 * mib;
  const auto before = memory_usage();
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 1, bytes);
  const auto held = memory_usage();
  ::munmap(pages, bytes);
  const auto after = memory_usage();
  EXPECT_NEAR(static_cast<double>(held.rss_bytes - before.rss_bytes), 128.0 * mib, 2.0 * mib);
  EXPECT_NEAR(static_cast<double>(held.rss_bytes - after.rss_bytes), 128.0 * mib, 2.0 * mib);
  EXPECT_GE(after.peak_rss_bytes, held.rss_bytes - 4 * mib);
}

TEST(MemoryUsage, PeakAgreesWithGetrusage) {
  rusage r{};
  ::getrusage(RUSAGE_SELF, &r);
  EXPECT_NEAR(static_cast<double>(memory_usage().peak_rss_bytes), static_cast<double>(r.ru_maxrss) * 1024,
              4.0 * mib);
}

class AvailableMemory : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::optional<std::int64_t> available() const { return available_memory(root_); }

 private:
  test::TemporaryDirectory dir_;
  std::filesystem::path root_ = dir_ / "root";
};

TEST(AvailableMemoryHere, IsSomeOfThisMachines) {
  const std::int64_t bytes = available_memory().value_or(0);
  EXPECT_GT(bytes, 64 * mib);
  EXPECT_LT(bytes, ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE));
}

TEST_F(AvailableMemory, IsUnknownWithoutProc) {
  EXPECT_EQ(available(), std::nullopt);
}

TEST_F(AvailableMemory, IsTheHostsWithoutGroups) {
  write("proc/meminfo", "MemTotal:       2048 kB\nMemFree:        100 kB\nMemAvailable:   1024 kB\n");
  EXPECT_EQ(available(), mib);
}

TEST_F(AvailableMemory, IsTheTightestGroups) {
  write("proc/meminfo", "MemAvailable:   8192 kB\n");
  write("proc/self/cgroup", "0::/slurm/job/step\n");
  write("sys/fs/cgroup/slurm/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job/step/memory.current", "1000\n");
  write("sys/fs/cgroup/slurm/job/memory.max", "5000000\n");
  write("sys/fs/cgroup/slurm/job/memory.current", "2000000\n");
  write("sys/fs/cgroup/slurm/job/memory.stat",
        "anon 5\ninactive_file 300000\nactive_file 7000\nslab_reclaimable 11\n");
  EXPECT_EQ(available(), 5000000 - 2000000 + 300000 + 7000 + 11);
}

TEST_F(AvailableMemory, KnowsTheFirstVersionOfGroups) {
  write("proc/meminfo", "MemAvailable:   8192 kB\n");
  write("proc/self/cgroup", "4:cpu,memory:/job:1\n3:cpuset:/\n0::/\n");
  write("sys/fs/cgroup/memory/job:1/memory.limit_in_bytes", "3000000\n");
  write("sys/fs/cgroup/memory/job:1/memory.usage_in_bytes", "1000000\n");
  write("sys/fs/cgroup/memory/job:1/memory.stat", "inactive_file 9\ntotal_inactive_file 400\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(available(), 2000400);
}

TEST_F(AvailableMemory, IsNoneInAFullGroup) {
  write("proc/meminfo", "MemAvailable:   8192 kB\n");
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1000\n");
  write("sys/fs/cgroup/memory.current", "1200\n");
  EXPECT_EQ(available(), 0);
}

/// What `body` says, rank by rank, on ranks that are threads.
template <class Said>
std::vector<Said> on_ranks(int ranks, int per_host, const std::function<Said(comm::World&)>& body) {
  comm::FakeOptions options;
  options.size = ranks;
  options.ranks_per_host = per_host;
  auto worlds = comm::make_fake_worlds(options);
  std::vector<Said> said(worlds.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < worlds.size(); ++rank)
    threads.emplace_back([&, rank] { said[rank] = body(*worlds[rank]); });
  for (std::thread& thread : threads) thread.join();
  return said;
}

TEST(SumOnHost, IsOverTheRanksOfEachHost) {
  const auto sums = on_ranks<std::int64_t>(
      5, 2, [](comm::World& world) { return sum_on_host(std::int64_t{1} << (4 * world.rank()), world); });
  EXPECT_EQ(sums, (std::vector<std::int64_t>{0x11, 0x11, 0x1100, 0x1100, 0x10000}));
}

/// What rank 0 is refused with, where each rank has its own plan; empty where nothing is refused. All ranks
/// are refused alike, and only rank 0 says why.
std::string refusal(const Deck& deck, int per_host, const std::vector<std::int64_t>& needed,
                    const Replan& replan) {
  const auto told = on_ranks<std::string>(
      static_cast<int>(needed.size()), per_host, [&](comm::World& world) -> std::string {
        PlannedMemory memory;
        memory.state = needed[static_cast<std::size_t>(world.rank())];
        try {
          check_memory(deck, memory, replan, world);
        } catch (const Error& e) {
          return e.code() == ExitCode::bad_input ? std::string("refused ") + e.what() : "another error";
        }
        return "";
      });
  for (std::size_t rank = 1; rank < told.size(); ++rank)
    EXPECT_EQ(told[rank], told[0].empty() ? "" : "refused ") << rank;
  return told[0];
}

/// A run that is stopped saves, whatever its deck says of checkpoints. The second model's table is longer
/// than the longest piece.
TEST(PlannedMemory, HasWhatSavingTakesWhateverTheDeckSaves) {
  for (const char* vocab : {"model.vocab=300", "model.vocab=65536"}) {
    std::int64_t largest = 0;
    for (const Unit& unit : model::units(compile::spec_of(test::small_deck({vocab}))))
      largest = std::max(largest, unit.shard_elements(1));
    const std::int64_t piece = std::min(8 * mib, 4 * largest);
    for (const char* every : {"0", "5"})
      for (const char* initial : {"false", "true"})
        for (const char* final : {"false", "true"}) {
          const Deck deck = test::small_deck(
              {vocab, "schedule.cuda_graph=off", std::string("checkpoint.every=") + every,
               std::string("checkpoint.initial=") + initial, std::string("checkpoint.final=") + final});
          const Mesh mesh = resolve_mesh(deck, 1);
          const plan::Plan plan = compile::training_plan(
              deck, mesh, [](const ir::Graph&, const ir::Node&) { return 0; },
              compile::pass_options(deck, mesh));
          const std::int64_t saving =
              planned_memory(deck, plan, nullptr, 0, 1).baseline - least_baseline(deck, 0, 1);
          EXPECT_EQ(saving, device_is_host() ? 6 * mib + 2 * piece : 0)
              << vocab << " " << every << " " << initial << " " << final;
          EXPECT_EQ(most_saving_bytes(deck, mesh), saving);
        }
  }
}

PlannedMemory no_replan(const Deck& /*deck*/, int /*ranks*/, int /*place*/) {
  throw Error(ExitCode::bad_input, "nobody asks for another plan here");
}

/// What the ranks need is told in shares of what this host has left. They are threads of one process, which
/// holds for each of them what it holds.
TEST(Preflight, TheRanksOfAHostNeedTheSumOfTheirOwnPlans) {
  if (!device_is_host()) GTEST_SKIP() << "on a device ranks do not share the host's memory";
  const auto left = static_cast<double>(available_memory().value_or(0));
  const auto refused = [&](int per_host, const std::vector<double>& shares) {
    std::vector<std::int64_t> needed;
    for (const double share : shares)
      needed.push_back(static_cast<std::int64_t>(share * left) + memory_usage().own_bytes);
    return refusal(test::small_deck(), per_host, needed, no_replan);
  };
  EXPECT_EQ(refused(2, {0.55, 0.05}), "") << "together they need less than there is";
  EXPECT_EQ(refused(2, {0.05, 0.55}), "");
  EXPECT_EQ(refused(1, {0.6, 0.6}), "") << "each has a host of its own";
  const std::string both = refused(2, {0.8, 0.8});
  EXPECT_NE(both.find("not enough memory: the run needs "), std::string::npos) << both;
  EXPECT_NE(both.find("the ranks of a host "), std::string::npos) << both;
  EXPECT_EQ(refused(4, {0.45, 0.05, 0.05, 0.05}), "") << "four times the largest would be too much";
  EXPECT_NE(refused(2, {0.05, 0.05, 0.8, 0.8}), "") << "the second host has too little";
}

/// Four ranks on a pipe of two and a tensor axis of two. Twice as many keep both axes, and the limit holds
/// for the fuller of the two places on the pipe.
TEST(Preflight, WhatWouldFitKeepsTheOtherAxesAndFitsOnEveryStage) {
  constexpr std::int64_t gib = 1 << 30;
  const Deck deck = test::small_deck({"parallel.mesh={ pipe = 2, tensor = 2 }", "run.memory_limit=2GiB"});
  std::map<int, std::vector<MeshAxis>> meshes;  // by the number of ranks
  const auto replan = [&](const Deck& changed, int ranks, int place) {
    const Mesh mesh = resolve_mesh(changed, ranks);
    meshes[ranks] = mesh.axes();
    PlannedMemory memory;
    memory.state = place == 0 ? gib / 2 : 3 * gib / mesh.size(data_axis);
    return memory;
  };
  const std::string told = refusal(deck, 4, {gib, gib, gib, 5 * gib / 2}, replan);
  EXPECT_NE(told.find("the run needs 2.50 GiB on a rank"), std::string::npos) << told;
  EXPECT_NE(
      told.find("schedule.recompute = \"full\" and twice as many ranks on the data axis would take 1.50 GiB"),
      std::string::npos)
      << told;
  EXPECT_EQ(meshes[8], (std::vector<MeshAxis>{{"pipe", 2}, {"data", 2}, {"tensor", 2}}));
}

/// A change that a later one undoes is not named beside it, and neither is one that has no plan.
TEST(Preflight, WhatWouldFitNamesEachKeyOnceAndNoChangeWithoutAPlan) {
  constexpr std::int64_t gib = 1 << 30;
  const auto told = [&](std::int64_t fits_batch, bool recomputes) {
    const Deck deck = test::small_deck({"data.batch=4", "data.global_batch=16", "run.memory_limit=2GiB"});
    std::vector<std::int64_t> batches;
    const std::string text = refusal(deck, 1, {3 * gib}, [&](const Deck& changed, int ranks, int) {
      if (!recomputes && changed.schedule.recompute == Recompute::full)
        throw Error(ExitCode::bad_input, "it has no such plan");
      batches.push_back(changed.data.batch);
      PlannedMemory memory;
      memory.state = changed.data.batch <= fits_batch || ranks > 1 ? gib : 3 * gib;
      return memory;
    });
    EXPECT_FALSE(batches.empty());
    return text.substr(text.find("; ") + 2);
  };
  const std::string full = "schedule.recompute = \"full\" and ", takes = " would take 1.00 GiB";
  EXPECT_EQ(told(2, true), full + "half of data.batch" + takes);
  EXPECT_EQ(told(1, true), full + "data.batch = 1" + takes);
  EXPECT_EQ(told(0, true), full + "data.batch = 1 and twice as many ranks on the data axis" + takes);
  EXPECT_EQ(told(1, false), "data.batch = 1" + takes);
}

/// The other ranks wait for the advice in a collective. A pipe of eight has eight plans a change: a change is
/// done with at the first that is too large, and no other is begun after a quarter of the timeout.
TEST(Preflight, AdviceTakesAQuarterOfTheCollectiveTimeout) {
  constexpr std::int64_t gib = 1 << 30;
  const auto places_planned = [&](const std::string& timeout) {
    const bool timed = timeout != "0s";
    const Deck deck = test::small_deck({"model.layers=8", "parallel.mesh={ pipe = 8 }",
                                        "run.memory_limit=2GiB", "run.collective_timeout=" + timeout});
    std::vector<int> places;
    const std::string told =
        refusal(deck, 8, std::vector<std::int64_t>(8, 3 * gib), [&](auto&&, int, int place) {
          places.push_back(place);
          if (timed) std::this_thread::sleep_for(std::chrono::milliseconds(600));
          PlannedMemory memory;
          memory.state = place == 1 ? 3 * gib : gib;
          return memory;
        });
    EXPECT_EQ(told.ends_with("(planning them takes too long here)"), timed) << told;
    return places;
  };
  EXPECT_EQ(places_planned("4s"), (std::vector<int>{0, 1}));
  EXPECT_GT(places_planned("0s").size(), 2U) << "nothing ends the wait";
}

}  // namespace
}  // namespace weft::runtime
