#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "comm/host/exchange.hpp"
#include "comm/host/fake.hpp"
#include "mpi/comm/checks.hpp"

namespace weft::test {
namespace {

using comm::Channel;
using comm::FakeWorld;

/// Runs `body` as each rank, each on a thread of its own.
void on_ranks(const comm::FakeOptions& options, const std::function<void(FakeWorld&)>& body) {
  auto worlds = comm::make_fake_worlds(options);
  std::vector<std::thread> threads;
  for (auto& world : worlds) threads.emplace_back([&] { body(*world); });
  for (auto& thread : threads) thread.join();
}

std::unique_ptr<Channel> open(comm::World& world, Lane lane, const char* name,
                              std::int64_t chunk_bytes = comm::ChannelOptions{}.chunk_bytes) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.open(ranks, lane, name, {.chunk_bytes = chunk_bytes, .open_at_once = {}});
}

class Fake : public testing::TestWithParam<int> {};

TEST_P(Fake, Collectives) {
  on_ranks({GetParam()}, [](FakeWorld& world) {
    check_everything(*open(world, Lane::gather, "whole"));
    check_reduce_scatter(*open(world, Lane::reduce, "264", 264));
  });
}

TEST_P(Fake, DelayedAndReordered) {
  on_ranks({GetParam(), 17, std::chrono::microseconds(300)}, [](FakeWorld& world) {
    const auto gather = open(world, Lane::gather, "gather"), reduce = open(world, Lane::reduce, "reduce");
    check_order(*gather);
    check_group(*gather);
    check_independence(*gather, *reduce);
  });
}

struct Hosts {
  int hosts, ranks_per_host;
};
class FakeWindow : public testing::TestWithParam<Hosts> {};

TEST_P(FakeWindow, SharesAndCrosses) {
  const Hosts p = GetParam();
  comm::FakeOptions options;
  options.size = p.hosts * p.ranks_per_host;
  options.ranks_per_host = p.ranks_per_host;
  options.max_delay = std::chrono::microseconds(200);
  on_ranks(options, [&](FakeWorld& world) {
    std::vector<int> everybody(static_cast<std::size_t>(world.size()));
    std::iota(everybody.begin(), everybody.end(), 0);
    const std::vector<int> team = world.team(everybody);
    ASSERT_EQ(team.size(), static_cast<std::size_t>(p.ranks_per_host));
    ASSERT_EQ(team.front() / p.ranks_per_host, world.rank() / p.ranks_per_host);
    const auto window = world.share(team, {1 << 20, 1 << 20, 1 << 20});
    const auto channel = open(world, Lane::gather, "window", 4096);
    check_window(*channel, *window, p.hosts);
    check_parts(*open(world, Lane::tensor, "parts", 4096), *window, p.ranks_per_host);
    world.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, FakeWindow,
                         testing::Values(Hosts{1, 2}, Hosts{1, 3}, Hosts{2, 2}, Hosts{3, 2}, Hosts{2, 3}));

TEST(FakeWorld, UnequalHostsMakeNoTeams) {
  comm::FakeOptions options;
  options.size = 3;
  options.ranks_per_host = 2;
  on_ranks(options, [](FakeWorld& world) {
    EXPECT_EQ(world.team({0, 1, 2}), std::vector<int>{world.rank()});
    if (world.rank() == 2) return;
    EXPECT_EQ(world.team({0, 1}), (std::vector<int>{0, 1}));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Fake, testing::Values(1, 2, 3, 4));

TEST(FakeWorld, RecordsWhatRan) {
  FakeWorld world;
  const auto c = open(world, Lane::reduce, "recorded");
  float x = 3;
  wait(c->all_gather({}, &x, &x, 1, DType::f32), "all_gather");
  wait(c->barrier({}), "barrier");
  const auto records = world.records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].kind, comm::CallKind::all_gather);
  EXPECT_EQ(records[0].lane, Lane::reduce);
  EXPECT_EQ(records[0].count, 1);
  EXPECT_LE(records[0].start_ns, records[0].end_ns);
  EXPECT_LE(records[0].end_ns, records[1].end_ns);
}

TEST(FakeWorld, DelaysReorderChannels) {
  // With delays, the later of two channels' calls sometimes ends first; without a dependency nothing
  // orders them.
  comm::FakeOptions options;
  options.max_delay = std::chrono::microseconds(2000);
  FakeWorld world(options);
  const auto a = open(world, Lane::gather, "a"), b = open(world, Lane::reduce, "b");
  bool a_first = false, b_first = false;
  for (int i = 0; i < 50 && !(a_first && b_first); ++i) {
    wait(a->barrier({}), "a");
    const comm::Event ea = a->barrier({}), eb = b->barrier({});
    while (!done(ea) && !done(eb)) std::this_thread::yield();
    (done(ea) ? a_first : b_first) = true;
    wait(ea, "a");
    wait(eb, "b");
  }
  EXPECT_TRUE(a_first && b_first);
}

/// Whatever is thrown on the communication thread ends the process with the call's name and the error's code.
TEST(FakeWorldDeathTest, WhatThrowsBesideACallIsTold) {
  const auto observed = [] {
    FakeWorld world;
    const auto c = open(world, Lane::reduce, "observed");
    c->set_observer([](const comm::FinishedCall&) { throw std::bad_alloc(); });
    wait(c->barrier({}), "barrier");
  };
  EXPECT_EXIT(observed(), testing::ExitedWithCode(static_cast<int>(ExitCode::environment)),
              "barrier #1 on channel observed failed: std::bad_alloc");
}

TEST(Self, Collectives) {
  const auto world = comm::make_self_world();
  check_everything(*open(*world, Lane::gather, "self"));
  const auto gather = open(*world, Lane::gather, "gather"), reduce = open(*world, Lane::reduce, "reduce");
  check_independence(*gather, *reduce);
  EXPECT_EQ(world->broadcast("text", 0), "text");
  EXPECT_EQ(world->gather_strings("text"), std::vector<std::string>{"text"});
  EXPECT_EQ(world->node_size(), 1);
}

TEST(HostTimeline, SyncWaitsForComplete) {
  comm::HostTimeline timeline;
  std::atomic<bool> completed{false};
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    completed = true;
    timeline.complete(3);
  });
  sync(comm::Event{&timeline, 2});
  EXPECT_TRUE(completed);
  EXPECT_TRUE(done(comm::Event{}));
  EXPECT_FALSE(done(comm::Event{&timeline, 4}));
  other.join();
}

TEST(Scratch, IsBoundedAndExactForShortSlices) {
  EXPECT_EQ(comm::reduce_scatter_scratch_bytes(1, 1 << 20, DType::f32, ReduceOrder::canonical), 0u);
  EXPECT_EQ(comm::reduce_scatter_scratch_bytes(4, 1000, DType::bf16, ReduceOrder::canonical), 6000u);
  EXPECT_EQ(comm::reduce_scatter_scratch_bytes(2, std::int64_t{1} << 40, DType::f32, ReduceOrder::canonical),
            16u << 20);
}

TEST(Scratch, OfManyRanksKeepsToItsBound) {
  const auto bytes = [](int ranks) {
    return comm::reduce_scatter_scratch_bytes(ranks, 1 << 23, DType::f32, ReduceOrder::canonical);
  };
  // Plans of up to 257 ranks have always had these.
  EXPECT_EQ(bytes(64), 63u * 1065216);
  EXPECT_EQ(bytes(256), 255u * 263168);
  EXPECT_EQ(bytes(257), 64u << 20);
  for (const int ranks : {258, 512, 1000, 2048, 4097}) EXPECT_LE(bytes(ranks), 64u << 20) << ranks;
  for (const int ranks : {4098, 16384}) EXPECT_EQ(bytes(ranks), (ranks - 1u) * (16u << 10)) << ranks;
  EXPECT_EQ(comm::reduce_scatter_scratch_bytes(16384, 1 << 20, DType::f32, ReduceOrder::canonical),
            16383u * (16u << 10));
  EXPECT_EQ(comm::reduce_scatter_scratch_bytes(2, 1 << 23, DType::f32, ReduceOrder::native), 32u << 20)
      << "a slice";
}

/// The messages of a rank whose peers have all sent theirs. The bytes of one all have the same value.
class SentTransport final : public comm::detail::Transport {
 public:
  explicit SentTransport(int ranks) : received_(static_cast<std::size_t>(ranks), 0) {}
  static int value(int peer, int message) { return (7 * peer + 31 * message) % 251; }

  comm::detail::Request send(int /*peer*/, int /*tag*/, const void* /*data*/,
                             std::size_t /*bytes*/) override {
    return {};
  }
  comm::detail::Request recv(int peer, int /*tag*/, void* data, std::size_t bytes) override {
    std::memset(data, value(peer, received_[static_cast<std::size_t>(peer)]++), bytes);
    return {};
  }
  bool test(comm::detail::Request& /*request*/) override { return true; }

 private:
  std::vector<int> received_;  ///< by peer: how many messages
};

/// More ranks than a test can have: what one of them receives of all others goes through its scratch, and
/// overwrites nothing that is still needed.
TEST(Scratch, OfManyRanksHoldsPortionAfterPortion) {
  namespace detail = comm::detail;
  for (const int ranks : {258, 5000}) {
    SCOPED_TRACE(ranks);
    const int rank = ranks / 2;
    detail::Peers peers{std::vector<char>(static_cast<std::size_t>(ranks), 1), {}, ranks - 1};
    peers.with[static_cast<std::size_t>(rank)] = 0;
    for (int r = 0; r < ranks; ++r) peers.place.push_back(r < rank ? r : r - 1);
    detail::Exchange x;
    x.recv = detail::Exchange::Part::ring;
    x.piece = detail::ring_piece_bytes(ranks, detail::default_chunk_bytes);
    x.slice = 6 * x.piece + 8;  // the last portion is a short one
    x.total = ranks * x.slice;
    x.peers = &peers;
    const auto bytes = static_cast<std::size_t>(detail::ring_bytes(ranks, x.slice));
    ASSERT_LT(bytes, 80u << 20);
    std::vector<std::byte> scratch(bytes + 64, std::byte{0x5a});
    x.to = scratch.data();

    SentTransport transport(ranks);
    detail::ExchangeRun run;
    run.start(x, rank, ranks, 0);
    int portion = 0;
    while (!run.finished()) {
      ASSERT_TRUE(run.progress(&transport)) << "it waits, and nothing is missing";
      for (; run.portion_ready(); ++portion) {
        const auto last = static_cast<std::size_t>(run.portion_bytes() - 1);
        for (int peer = 0; peer < ranks; ++peer) {
          if (peer == rank) continue;
          const auto expected = static_cast<std::byte>(SentTransport::value(peer, portion));
          ASSERT_EQ(run.portion_piece(peer)[0], expected) << portion << " of rank " << peer;
          ASSERT_EQ(run.portion_piece(peer)[last], expected) << portion << " of rank " << peer;
        }
        run.release_portion();
      }
    }
    EXPECT_EQ(portion, 7);
    EXPECT_TRUE(std::all_of(scratch.begin() + static_cast<std::ptrdiff_t>(bytes), scratch.end(),
                            [](std::byte b) { return b == std::byte{0x5a}; }))
        << "wrote past scratch";
  }
}

}  // namespace
}  // namespace weft::test
