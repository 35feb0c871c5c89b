#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "mpi/comm/checks.hpp"
#include "support/mpi_environment.hpp"

namespace weft::test {
namespace {

using comm::Channel;

std::unique_ptr<Channel> open(Lane lane, const char* name,
                              std::int64_t chunk_bytes = comm::ChannelOptions{}.chunk_bytes) {
  std::vector<int> ranks(static_cast<std::size_t>(world().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world().open(ranks, lane, name, {.chunk_bytes = chunk_bytes, .open_at_once = {}});
}

void check_large(Channel& c) {
  const std::int64_t count = 1000003;
  std::vector<float> mine(count), all(static_cast<std::size_t>(count * c.size()));
  std::iota(mine.begin(), mine.end(), static_cast<float>(c.rank()));
  wait(c.all_gather({}, mine.data(), all.data(), count, DType::f32), "all_gather of 1000003");
  for (int r = 0; r < c.size(); ++r) {
    for (std::int64_t i : {std::int64_t{0}, count / 2, count - 1}) {
      EXPECT_EQ(all[static_cast<std::size_t>(r * count + i)], static_cast<float>(r + i));
    }
  }
  std::vector<std::byte> scratch(c.reduce_scatter_scratch_bytes(count, DType::f32, ReduceOrder::canonical));
  wait(c.reduce_scatter({}, {all.data(), mine.data(), scratch.data(), count}), "reduce_scatter of 1000003");
  for (std::int64_t i : {std::int64_t{0}, count / 2, count - 1}) {
    EXPECT_EQ(mine[static_cast<std::size_t>(i)], static_cast<float>(c.size() * (c.rank() + i)));
  }
}

TEST(Mpi, DefaultChunks) {
  check_everything(*open(Lane::gather, "whole"));
}

// Every transfer is cut many times, which happens at full size to counts of 64 bits.
TEST(Mpi, SmallChunks) {
  check_everything(*open(Lane::gather, "4096", 4096));
  check_reduce_scatter(*open(Lane::reduce, "264", 264));
}

// A chunk is longer than what Open MPI sends without asking, and more than a reduce-scatter's round may have.
TEST(Mpi, LargeChunks) {
  check_everything(*open(Lane::gather, "4 MiB", 4 << 20));
  check_large(*open(Lane::reduce, "1 GiB", 1 << 30));
}

TEST(Mpi, LargeOddCount) {
  check_large(*open(Lane::gather, "large"));
}

TEST(Mpi, Window) {
  if (world().size() == 1) GTEST_SKIP() << "one rank has nobody to share with";
  std::vector<int> everybody(static_cast<std::size_t>(world().size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  ASSERT_EQ(world().team(everybody), everybody);
  const auto window = world().share(everybody, {9 << 20, 1 << 20, 1 << 20});
  ASSERT_NE(window, nullptr);
  check_window(*open(Lane::reduce, "window"), *window, 1);
  world().barrier();
}

/// The window of a mesh of two axes has more ranks than a channel over one of them.
TEST(Mpi, PartsOfAWindowOfMoreRanks) {
  if (world().size() == 1) GTEST_SKIP() << "one rank has nobody to share with";
  std::vector<int> everybody(static_cast<std::size_t>(world().size())), some;
  std::iota(everybody.begin(), everybody.end(), 0);
  const int apart = world().size() == 4 ? 2 : 1;  // of four ranks 0 and 2, and 1 and 3
  for (int r = world().rank() % apart; r < world().size(); r += apart) some.push_back(r);
  const auto window = world().share(everybody, {1 << 20, 1 << 20, 1 << 20});
  ASSERT_NE(window, nullptr);
  const auto channel = world().open(some, Lane::tensor, "parts");
  check_parts(*channel, *window, channel->size());
  world().barrier();
}

TEST(Mpi, ChannelsAreIndependent) {
  const auto gather = open(Lane::gather, "gather"), reduce = open(Lane::reduce, "reduce");
  check_independence(*gather, *reduce);
}

TEST(Mpi, SubsetsOfRanks) {
  // Even and odd ranks each have a channel of their own; ranks within it count from 0.
  std::vector<int> ranks;
  for (int r = world().rank() % 2; r < world().size(); r += 2) ranks.push_back(r);
  const auto c = world().open(ranks, Lane::gather, "parity");
  EXPECT_EQ(c->rank(), world().rank() / 2);
  std::vector<int> got(ranks.size());
  const int mine = world().rank();
  wait(c->all_gather({}, &mine, got.data(), 1, DType::i32), "all_gather over a subset");
  EXPECT_EQ(got, ranks);
  EXPECT_ANY_THROW(world().open({world().size()}, Lane::gather, "elsewhere"));
}

TEST(Mpi, BlockingConveniences) {
  world().barrier();
  const int n = world().size();
  std::vector<double> most = {static_cast<double>(world().rank()), -1.0 - world().rank()};
  world().all_reduce_max(most);
  EXPECT_EQ(most, (std::vector<double>{n - 1.0, -1.0}));
  std::int64_t ones = 1;
  world().all_reduce_sum(std::span<std::int64_t>(&ones, 1));
  EXPECT_EQ(ones, n);
  const std::string text = "from the last rank";
  EXPECT_EQ(world().broadcast(world().rank() == n - 1 ? text : "", n - 1), text);
  const auto all = world().gather_strings(std::string(static_cast<std::size_t>(world().rank()), 'x'));
  ASSERT_EQ(all.size(), world().rank() == 0 ? static_cast<std::size_t>(n) : 0u);
  for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], std::string(r, 'x'));
  EXPECT_EQ(world().node_size(), n);  // the tests run on one host
  EXPECT_EQ(world().node_rank(), world().rank());
}

}  // namespace
}  // namespace weft::test
