// Checks of what a channel need not send: parameters that a host's ranks share, and rows that nobody uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "mpi/comm/checks.hpp"
#include "mpi/comm/noise.hpp"

namespace weft::test {

using comm::Channel;

void check_rows(Channel& c, std::int64_t rows, int rounds) {
  constexpr std::int64_t row = 24;  // slices end within rows, and the last one is padded
  const std::int64_t ranks = c.size(), count = (rows * row / ranks / 8 + 1) * 8;
  const comm::RowSlices slices{rows, row, count, c.size()};
  const auto rank_uses = [&](std::int64_t r,
                             std::int64_t i) {  // rank 1 uses nothing, rank 2 all rows, the others a few
    return r == 2 || (r != 1 && (i * 7919 + r * 31) % 11 < 2);
  };
  const auto set = [](std::vector<std::uint8_t>& bits, std::int64_t i) {
    bits[static_cast<std::size_t>(i / 8)] |= static_cast<std::uint8_t>(1U << (i % 8));
  };
  std::vector<std::uint8_t> own(static_cast<std::size_t>(slices.table_bytes()));
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(ranks * slices.slice_bytes()));
  for (std::int64_t i = 0; i < rows; ++i)
    if (rank_uses(c.rank(), i)) set(own, i);
  // A rank knows which of the rows that begin, end or stand in its slice the others use.
  const std::int64_t first = slices.first_row(c.rank());
  const std::int64_t end = std::min(rows, ((c.rank() + 1) * count + row - 1) / row);
  for (std::int64_t r = 0; r < ranks; ++r)
    for (std::int64_t i = first; i < end; ++i)
      if (rank_uses(r, i)) set(seen, 8 * r * slices.slice_bytes() + i - first);
  const comm::UsedRows used{slices, c.rank(), own.data(), seen.data(), slices.slice_bytes()};
  const auto table = [&](std::int64_t i) { return static_cast<float>(3 * i + 1); };
  std::vector<float> shard(static_cast<std::size_t>(count)), whole(static_cast<std::size_t>(ranks * count));
  for (std::int64_t i = 0; i < count; ++i) shard[static_cast<std::size_t>(i)] = table(c.rank() * count + i);
  std::vector<std::byte> scratch(c.reduce_scatter_scratch_bytes(count, DType::f32, ReduceOrder::canonical));
  std::uint64_t expected = 0;  // bytes that this rank sends for one gather and one reduction
  for (std::int64_t r = 0; r < ranks; ++r)
    for (std::int64_t i = 0; i < rows * row; ++i) {
      const std::int64_t owner = i / count;
      if (r == c.rank() || owner == r) continue;
      expected += (owner == c.rank() && rank_uses(r, i / row) ? 4 : 0);
    }
  for (std::int64_t i = 0; i < rows * row; ++i)
    expected += (i / count != c.rank() && rank_uses(c.rank(), i / row) ? 4 : 0);

  const std::uint64_t before = c.bytes_sent();
  for (int round = 0; round < rounds; ++round) {
    std::fill(whole.begin(), whole.end(), -1.0F);
    wait(c.all_gather_rows({}, shard.data(), whole.data(), count, DType::f32, used), "all_gather_rows");
    for (std::int64_t i = 0; i < rows * row; ++i)
      if (rank_uses(c.rank(), i / row)) {
        ASSERT_EQ(whole[static_cast<std::size_t>(i)], table(i)) << i;
      }

    for (std::int64_t i = 0; i < ranks * count; ++i)
      whole[static_cast<std::size_t>(i)] =
          i < rows * row && rank_uses(c.rank(), i / row) ? real(c.rank(), i, round) : 0.0F;
    std::vector<float> sum(static_cast<std::size_t>(count), -1.0F);
    comm::ReduceScatter what{whole.data(), sum.data(), scratch.data(), count};
    what.rows = &used;
    wait(c.reduce_scatter({}, what), "reduce_scatter of rows");
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = c.rank() * count + i;
      const auto term = [&](std::int64_t r) {
        return at < rows * row && rank_uses(r, at / row) ? real(static_cast<int>(r), at, round) : 0.0F;
      };
      float acc = term(0);
      for (std::int64_t r = 1; r < ranks; ++r) acc += term(r);
      ASSERT_EQ(sum[static_cast<std::size_t>(i)], acc) << "element " << i;
    }
  }
  EXPECT_EQ(c.bytes_sent() - before, static_cast<std::uint64_t>(rounds) * expected);
}

void check_window(Channel& c, comm::Window& window, int hosts) {
  constexpr std::int64_t count = 20011;
  const std::int64_t ranks = c.size();
  ASSERT_GE(window.sizes().common, ranks * count * 4);
  ASSERT_GE(window.sizes().shown, ranks * count * 4);
  c.share(window, comm::SharedGathers::to_common);
  const std::span<std::byte> unseen(window.own() + window.sizes().shown, window.own() + window.sizes().part);
  std::fill(unseen.begin(), unseen.end(), std::byte(c.rank() + 1));
  const std::uint64_t sent = c.bytes_sent();
  const auto begins_right = [](const std::byte* p) { return reinterpret_cast<std::uintptr_t>(p) % 256 == 0; };
  EXPECT_TRUE(begins_right(window.common()));
  for (int m = 0; m < window.size(); ++m) EXPECT_TRUE(begins_right(window.part(m))) << m;
  auto* common = reinterpret_cast<float*>(window.common());
  auto* unit = reinterpret_cast<float*>(window.own());
  std::vector<float> shard(count), sum(count);
  const std::int64_t abroad = ranks - window.size();
  std::vector<std::byte> scratch(
      comm::reduce_scatter_scratch_bytes(c.size(), count, DType::f32, ReduceOrder::canonical, window.size()));
  constexpr int rounds = 40;
  for (int round = 0; round < rounds; ++round) {
    // The bytes are the same in every round, because what a slower neighbour still reads must not change.
    std::iota(shard.begin(), shard.end(), static_cast<float>(100 * c.rank() + round));
    wait(c.all_gather({}, shard.data(), common, count, DType::f32), "all_gather in a window");
    for (std::int64_t r = 0; r < ranks; ++r)
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(common[r * count + i], static_cast<float>(100 * r + round + i)) << r << " " << i;
    for (std::int64_t i = 0; i < ranks * count; ++i) unit[i] = real(c.rank(), i, round);
    wait(c.reduce_scatter({}, {unit, sum.data(), scratch.data(), count}), "reduce_scatter in a window");
    for (std::int64_t i = 0; i < count; ++i) {
      float expected = real(0, c.rank() * count + i, round);
      for (int r = 1; r < ranks; ++r) expected += real(r, c.rank() * count + i, round);
      ASSERT_EQ(sum[static_cast<std::size_t>(i)], expected) << "element " << i;
    }
  }
  // A shard crosses to each other host once. Slices cross to every rank of another host.
  const std::int64_t crossed = (hosts - 1 + abroad) * count * 4 * rounds;
  EXPECT_EQ(c.bytes_sent() - sent, static_cast<std::uint64_t>(crossed));

  // Now several run at once, as buckets do, and in place, where the shard stands in the common stretch
  // already.
  constexpr std::int64_t small = 300;
  c.group_begin();
  comm::Event last;
  for (std::int64_t m = 0; m < 12; ++m) {
    float* whole = common + m * ranks * small;
    for (std::int64_t i = 0; i < small; ++i)
      whole[c.rank() * small + i] = static_cast<float>(1000 * m + i + c.rank());
    last = c.all_gather({}, whole + c.rank() * small, whole, small, DType::f32);
  }
  c.group_end();
  wait(last, "a group in a window");
  for (std::int64_t m = 0; m < 12; ++m)
    for (std::int64_t r = 0; r < ranks; ++r)
      ASSERT_EQ(common[(m * ranks + r) * small + 7], static_cast<float>(1000 * m + 7 + r));
  const auto is_mine = [&](std::byte b) { return b == std::byte(c.rank() + 1); };
  EXPECT_TRUE(std::all_of(unseen.begin(), unseen.end(), is_mine));
  // Operands that lie elsewhere are sent as before.
  check_reduce_scatter(c);
  check_all_gather(c);
}

void check_parts(Channel& c, comm::Window& window, int near) {
  constexpr std::int64_t count = 100'003, slice = 5'003;  // a block is copied in several pieces
  const std::int64_t ranks = c.size();
  ASSERT_GE(window.sizes().shown, 4 * std::max(count, ranks * slice));
  c.share(window, comm::SharedGathers::from_parts);
  const std::uint64_t sent = c.bytes_sent();
  auto* const shown = reinterpret_cast<float*>(window.own());
  std::vector<float> whole(static_cast<std::size_t>(ranks * count)), sum(slice);
  std::vector<std::byte> scratch(
      comm::reduce_scatter_scratch_bytes(c.size(), slice, DType::f32, ReduceOrder::canonical, near));
  constexpr int rounds = 20;
  for (int round = 0; round < rounds; ++round) {
    // What a slower neighbour still reads must not change, so the bytes are others in each round.
    for (std::int64_t i = 0; i < count; ++i) shown[i] = static_cast<float>(100 * c.rank() + round + i);
    wait(c.all_gather({}, shown, whole.data(), count, DType::f32), "all_gather from parts");
    for (std::int64_t r = 0; r < ranks; ++r)
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(whole[static_cast<std::size_t>(r * count + i)], static_cast<float>(100 * r + round + i))
            << r << " " << i;
    for (std::int64_t i = 0; i < ranks * slice; ++i) shown[i] = real(c.rank(), i, round);
    wait(c.reduce_scatter({}, {shown, sum.data(), scratch.data(), slice}), "reduce_scatter from parts");
    for (std::int64_t i = 0; i < slice; ++i) {
      float expected = real(0, c.rank() * slice + i, round);
      for (int r = 1; r < ranks; ++r) expected += real(r, c.rank() * slice + i, round);
      ASSERT_EQ(sum[static_cast<std::size_t>(i)], expected) << "element " << i;
    }
  }
  EXPECT_EQ(c.bytes_sent() - sent, static_cast<std::uint64_t>((ranks - near) * (count + slice) * 4 * rounds));

  constexpr std::int64_t small = 300;
  for (std::int64_t i = 0; i < 12 * small; ++i) shown[i] = static_cast<float>(10'000 * c.rank() + i);
  c.group_begin();
  comm::Event last;
  for (std::int64_t m = 0; m < 12; ++m)
    last = c.all_gather({}, shown + m * small, whole.data() + m * ranks * small, small, DType::f32);
  c.group_end();
  wait(last, "a group from parts");
  for (std::int64_t m = 0; m < 12; ++m)
    for (std::int64_t r = 0; r < ranks; ++r)
      ASSERT_EQ(whole[static_cast<std::size_t>((m * ranks + r) * small + 7)],
                static_cast<float>(10'000 * r + m * small + 7));
  check_reduce_scatter(c);
  check_all_gather(c);
}

}  // namespace weft::test
