#include "mpi/comm/checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "base/dtype.hpp"

namespace weft::test {
namespace {

using comm::Accumulate;
using comm::Channel;
using comm::Event;
using comm::ReduceOp;
using comm::ReduceOrder;

constexpr std::int64_t counts[] = {0, 1, 3, 255, 257, 20011};

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

std::uint64_t noise(int rank, std::int64_t i, int salt = 0) {
  return mix(static_cast<std::uint64_t>(i) * 4099 + static_cast<std::uint64_t>(rank) * 31 +
             static_cast<std::uint64_t>(salt));
}

/// Floats of mixed sign and magnitude, so that another order of additions gives other bits.
float real(int rank, std::int64_t i, int salt = 0) {
  const std::uint64_t n = noise(rank, i, salt);
  const float x = static_cast<float>(static_cast<std::int64_t>(n >> 32) - (1ll << 31)) * 0x1p-31f;
  return x * static_cast<float>(1 << (n % 12));
}

std::vector<std::byte> noisy_bytes(int rank, std::size_t bytes) {
  std::vector<std::byte> v(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    v[i] = static_cast<std::byte>(noise(rank, static_cast<std::int64_t>(i)));
  return v;
}

std::string label(const Channel& c, const char* op, DType t, std::int64_t count) {
  return std::string(op) + " " + std::string(name_of(t)) + " x " + std::to_string(count) + " on " + c.name();
}

template <class T>
T convert(float x) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(x);
  } else {
    return x;
  }
}

bool same_bytes(const void* a, const void* b, std::size_t bytes) {
  return bytes == 0 || std::memcmp(a, b, bytes) == 0;
}

/// Rounds of canonical reduce-scatters onto one shard, against the sequential definition over all ranks.
template <class Wire, class Out>
void check_sum(Channel& c, std::int64_t count, DType wire, DType out_type, ReduceOrder order) {
  const std::string what = label(c, "reduce_scatter", wire, count);
  const auto slice = static_cast<std::size_t>(count);
  const auto ranks = static_cast<std::size_t>(c.size());
  std::vector<Out> out(slice), expected(slice);
  std::vector<std::byte> scratch(c.reduce_scatter_scratch_bytes(count, wire, order) + 64, std::byte{0x5a});
  const std::size_t guarded = scratch.size() - 64;
  for (int round = 0; round < 3; ++round) {
    std::vector<Wire> in(slice * ranks);
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] = convert<Wire>(real(c.rank(), static_cast<std::int64_t>(i), round));
    }
    const Accumulate accumulate = round == 0 ? Accumulate::replace : Accumulate::add;
    wait(c.reduce_scatter({}, {in.data(), out.data(), scratch.data(), count, wire, DType::f32, out_type,
                               accumulate, order}),
         what);
    for (std::size_t i = 0; i < slice; ++i) {
      const auto global = static_cast<std::int64_t>(i) + c.rank() * count;
      float acc = round == 0 ? 0 : to_float(expected[i]);
      for (int r = 0; r < c.size(); ++r) {
        const float s = to_float(convert<Wire>(real(r, global, round)));
        acc = round == 0 && r == 0 ? s : acc + s;
      }
      expected[i] = convert<Out>(acc);
    }
    EXPECT_TRUE(same_bytes(out.data(), expected.data(), slice * sizeof(Out))) << what << " round " << round;
  }
  for (std::size_t i = guarded; i < scratch.size(); ++i)
    EXPECT_EQ(scratch[i], std::byte{0x5a}) << what << " wrote past scratch";
}

template <class T>
void check_all_reduce_of(Channel& c, DType dtype, std::int64_t count) {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    const std::string what = label(c, "all_reduce", dtype, count);
    std::vector<T> buffer(static_cast<std::size_t>(count)), expected(buffer.size());
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      const auto value = [&](int r) {
        if constexpr (std::is_floating_point_v<T>) {
          return static_cast<T>(real(r, static_cast<std::int64_t>(i)));
        } else {
          // Half the width of T: sums of signed values must not overflow.
          return static_cast<T>(noise(r, static_cast<std::int64_t>(i)) >> (64 - 4 * sizeof(T)));
        }
      };
      buffer[i] = value(c.rank());
      expected[i] = value(0);
      for (int r = 1; r < c.size(); ++r) {
        const T x = value(r);
        expected[i] = op == ReduceOp::sum   ? static_cast<T>(expected[i] + x)
                      : op == ReduceOp::max ? std::max(expected[i], x)
                                            : std::min(expected[i], x);
      }
    }
    wait(c.all_reduce({}, buffer.data(), count, dtype, op), what);
    EXPECT_EQ(buffer, expected) << what;
  }
}

}  // namespace

void wait(const Event& event, const std::string& what) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done(event)) {
    if (std::chrono::steady_clock::now() > deadline) {
      std::fprintf(stderr, "[  FAILED  ] %s hangs\n", what.c_str());
      std::_Exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  sync(event);
}

void check_all_gather(Channel& c) {
  const auto rank = static_cast<std::size_t>(c.rank());
  for (DType t : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u16, DType::u32,
                  DType::u64, DType::u8}) {
    for (std::int64_t count : counts) {
      const std::string what = label(c, "all_gather", t, count);
      const std::size_t bytes = static_cast<std::size_t>(count) * size_of(t);
      const std::vector<std::byte> mine = noisy_bytes(c.rank(), bytes);
      std::vector<std::byte> out(bytes * static_cast<std::size_t>(c.size())), in_place = out, expected;
      for (int r = 0; r < c.size(); ++r) {
        const auto theirs = noisy_bytes(r, bytes);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      wait(c.all_gather({}, mine.data(), out.data(), count, t), what);
      EXPECT_EQ(out, expected) << what;
      std::copy(mine.begin(), mine.end(), in_place.begin() + static_cast<std::ptrdiff_t>(rank * bytes));
      wait(c.all_gather({}, in_place.data() + rank * bytes, in_place.data(), count, t), what + " in place");
      EXPECT_EQ(in_place, expected) << what << " in place";
    }
  }
}

void check_all_to_all(Channel& c) {
  for (DType t : {DType::u8, DType::bf16, DType::f32, DType::i64}) {
    for (std::int64_t count : counts) {
      const std::string what = label(c, "all_to_all", t, count);
      const std::size_t bytes = static_cast<std::size_t>(count) * size_of(t);
      const auto block = [&](int from, int to) { return noisy_bytes(from * 64 + to, bytes); };
      std::vector<std::byte> in, out(bytes * static_cast<std::size_t>(c.size())), expected;
      for (int r = 0; r < c.size(); ++r) {
        const auto send = block(c.rank(), r), recv = block(r, c.rank());
        in.insert(in.end(), send.begin(), send.end());
        expected.insert(expected.end(), recv.begin(), recv.end());
      }
      wait(c.all_to_all({}, in.data(), out.data(), count, t), what);
      EXPECT_EQ(out, expected) << what;
    }
  }
}

void check_reduce_scatter(Channel& c) {
  for (ReduceOrder order : {ReduceOrder::canonical, ReduceOrder::native}) {
    for (std::int64_t count : counts) {
      check_sum<float, float>(c, count, DType::f32, DType::f32, order);
      check_sum<bf16, float>(c, count, DType::bf16, DType::f32, order);
      check_sum<float, bf16>(c, count, DType::f32, DType::bf16, order);
      check_sum<bf16, bf16>(c, count, DType::bf16, DType::bf16, order);
    }
  }
  // In place: the output is this rank's slice of the input.
  const std::int64_t count = 5003;
  std::vector<float> unit(static_cast<std::size_t>(count * c.size()));
  for (std::size_t i = 0; i < unit.size(); ++i) unit[i] = real(c.rank(), static_cast<std::int64_t>(i));
  std::vector<std::byte> scratch(c.reduce_scatter_scratch_bytes(count, DType::f32, ReduceOrder::canonical));
  float* out = unit.data() + c.rank() * count;
  wait(c.reduce_scatter({}, {unit.data(), out, scratch.data(), count}), "reduce_scatter in place");
  for (std::int64_t i = 0; i < count; ++i) {
    float acc = real(0, c.rank() * count + i);
    for (int r = 1; r < c.size(); ++r) acc += real(r, c.rank() * count + i);
    ASSERT_EQ(out[i], acc) << "element " << i;
  }
  EXPECT_ANY_THROW(c.reduce_scatter({}, {unit.data(), out, scratch.data(), count, DType::f64}));
}

void check_rows(Channel& c) {
  constexpr std::int64_t row = 24, rows = 997;  // slices end within rows, and the last one is padded
  const std::int64_t ranks = c.size(), count = (rows * row / ranks / 8 + 1) * 8;
  std::vector<std::vector<std::uint8_t>> bits(static_cast<std::size_t>(ranks));
  comm::UsedRows used{rows, row, {}};
  const auto rank_uses = [&](std::int64_t r,
                             std::int64_t i) {  // rank 1 nothing, rank 2 all, the others a few
    return r == 2 || (r != 1 && (i * 7919 + r * 31) % 11 < 2);
  };
  for (std::int64_t r = 0; r < ranks; ++r) {
    auto& mine = bits[static_cast<std::size_t>(r)];
    mine.resize((rows + 7) / 8);
    for (std::int64_t i = 0; i < rows; ++i)
      if (rank_uses(r, i)) mine[static_cast<std::size_t>(i / 8)] |= static_cast<std::uint8_t>(1U << (i % 8));
    used.by_rank.push_back(mine.data());
  }
  const auto table = [&](std::int64_t i) { return static_cast<float>(3 * i + 1); };
  std::vector<float> shard(static_cast<std::size_t>(count)), whole(static_cast<std::size_t>(ranks * count));
  for (std::int64_t i = 0; i < count; ++i) shard[static_cast<std::size_t>(i)] = table(c.rank() * count + i);
  std::vector<std::byte> scratch(c.reduce_scatter_scratch_bytes(count, DType::f32, ReduceOrder::canonical));
  std::uint64_t expected = 0;  // bytes that this rank sends, of one gather and one reduction
  for (std::int64_t r = 0; r < ranks; ++r)
    for (std::int64_t i = 0; i < rows * row; ++i) {
      const std::int64_t owner = i / count;
      if (r == c.rank() || owner == r) continue;
      expected += (owner == c.rank() && rank_uses(r, i / row) ? 4 : 0);
    }
  for (std::int64_t i = 0; i < rows * row; ++i)
    expected += (i / count != c.rank() && rank_uses(c.rank(), i / row) ? 4 : 0);

  const std::uint64_t before = c.bytes_sent();
  constexpr int rounds = 3;
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
  EXPECT_EQ(c.bytes_sent() - before, rounds * expected);
}

void check_window(Channel& c, comm::Window& window, int hosts) {
  constexpr std::int64_t count = 20011;
  const std::int64_t ranks = c.size();
  ASSERT_GE(window.sizes().common, ranks * count * 4);
  ASSERT_GE(window.sizes().shown, ranks * count * 4);
  c.share(window);
  const std::span<std::byte> unseen(window.own() + window.sizes().shown, window.own() + window.sizes().part);
  std::fill(unseen.begin(), unseen.end(), std::byte(c.rank() + 1));
  const std::uint64_t sent = c.bytes_sent();
  auto* common = reinterpret_cast<float*>(window.common());
  auto* unit = reinterpret_cast<float*>(window.own());
  std::vector<float> shard(count), sum(count);
  const std::int64_t abroad = ranks - window.size();
  std::vector<std::byte> scratch(
      comm::reduce_scatter_scratch_bytes(c.size(), count, DType::f32, ReduceOrder::canonical, window.size()));
  constexpr int rounds = 40;
  for (int round = 0; round < rounds; ++round) {
    // The same bytes every round: what a slower neighbour still reads must not change under it.
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
  // A shard crosses to each other host once; slices cross to every rank of another host.
  const std::int64_t crossed = (hosts - 1 + abroad) * count * 4 * rounds;
  EXPECT_EQ(c.bytes_sent() - sent, static_cast<std::uint64_t>(crossed));

  // Several at once, as buckets are; in place, where the shard stands in the common stretch already.
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
  // What lies elsewhere goes as before.
  check_reduce_scatter(c);
  check_all_gather(c);
}

void check_all_reduce(Channel& c) {
  for (std::int64_t count : counts) {
    check_all_reduce_of<float>(c, DType::f32, count);
    check_all_reduce_of<double>(c, DType::f64, count);
    check_all_reduce_of<std::int32_t>(c, DType::i32, count);
    check_all_reduce_of<std::int64_t>(c, DType::i64, count);
    check_all_reduce_of<std::uint32_t>(c, DType::u32, count);
    check_all_reduce_of<std::uint64_t>(c, DType::u64, count);
  }
  float x = 0;
  EXPECT_ANY_THROW(c.all_reduce({}, &x, 1, DType::bf16, ReduceOp::sum));
}

void check_broadcast(Channel& c) {
  for (int root = 0; root < c.size(); ++root) {
    for (std::int64_t bytes : {0, 1, 257, 40000, 100003}) {
      const std::string what = label(c, "broadcast", DType::u8, bytes);
      std::vector<std::byte> buffer = noisy_bytes(c.rank(), static_cast<std::size_t>(bytes));
      wait(c.broadcast({}, buffer.data(), bytes, root), what);
      EXPECT_EQ(buffer, noisy_bytes(root, static_cast<std::size_t>(bytes))) << what;
    }
  }
}

void check_send_recv(Channel& c) {
  if (c.size() == 1) return;
  // A ring, both ways in one group, then everybody to rank 0 with unequal numbers of operations a rank.
  const int next = (c.rank() + 1) % c.size(), previous = (c.rank() + c.size() - 1) % c.size();
  const std::size_t bytes = 70001;
  const auto mine = noisy_bytes(c.rank(), bytes);
  std::vector<std::byte> got(bytes);
  c.group_begin();
  c.send({}, mine.data(), static_cast<std::int64_t>(bytes), next);
  const Event received = c.recv({}, got.data(), static_cast<std::int64_t>(bytes), previous);
  c.group_end();
  wait(received, "send and recv around the ring");
  EXPECT_EQ(got, noisy_bytes(previous, bytes));
  for (int r = 1; r < c.size(); ++r) {
    if (c.rank() == 0) {
      wait(c.recv({}, got.data(), 999, r), "recv from all");
      EXPECT_TRUE(same_bytes(got.data(), noisy_bytes(r, 999).data(), 999));
    } else if (c.rank() == r) {
      wait(c.send({}, mine.data(), 999, 0), "send to rank 0");
    }
  }
  EXPECT_ANY_THROW(c.send({}, mine.data(), 1, c.rank()));
}

void check_order(Channel& c) {
  std::vector<int> all(static_cast<std::size_t>(c.size()), -1), again = all;
  comm::HostTimeline compute;
  const Event computed{&compute, 7};
  int mine = -100;
  const Event first = c.all_gather({&computed, 1}, &mine, all.data(), 1, DType::i32);
  const Event second = c.all_gather({}, &mine, again.data(), 1, DType::i32);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  compute.complete(6);
  EXPECT_FALSE(done(first)) << "started before its dependency was done";
  EXPECT_FALSE(done(second)) << "overtook an earlier operation of its channel";
  mine = c.rank();  // what the dependency stands for
  compute.complete(7);
  wait(second, "all_gather after a late dependency");
  EXPECT_TRUE(done(first));
  for (int r = 0; r < c.size(); ++r) {
    EXPECT_EQ(all[static_cast<std::size_t>(r)], r);
    EXPECT_EQ(again[static_cast<std::size_t>(r)], r);
  }
  // Many operations in flight: the queue grows, the order stays.
  std::vector<std::int64_t> sums(300, 1);
  Event last;
  for (auto& s : sums) last = c.all_reduce({}, &s, 1, DType::i64, ReduceOp::sum);
  wait(last, "300 all_reduces");
  EXPECT_EQ(sums, std::vector<std::int64_t>(300, c.size()));
  wait(c.barrier({}), "barrier");
}

void check_group(Channel& c) {
  constexpr int units = 11;
  std::vector<std::vector<std::byte>> out(units);
  std::vector<std::vector<std::byte>> mine(units);
  std::vector<Event> events;
  c.group_begin();
  for (int u = 0; u < units; ++u) {
    const auto bytes = static_cast<std::size_t>(u) * 1000 + 1;
    mine[u] = noisy_bytes(c.rank() + 64 * u, bytes);
    out[u].resize(bytes * static_cast<std::size_t>(c.size()));
    events.push_back(
        c.all_gather({}, mine[u].data(), out[u].data(), static_cast<std::int64_t>(bytes), DType::u8));
  }
  c.group_end();
  for (int u = 0; u < units; ++u) {
    wait(events[u], "grouped all_gather");
    const std::size_t bytes = mine[u].size();
    for (int r = 0; r < c.size(); ++r) {
      const auto theirs = noisy_bytes(r + 64 * u, bytes);
      EXPECT_TRUE(same_bytes(out[u].data() + static_cast<std::size_t>(r) * bytes, theirs.data(), bytes))
          << u << " " << r;
    }
  }
}

void check_counters(Channel& c) {
  constexpr std::int64_t count = 10007;
  const auto others = static_cast<std::uint64_t>(c.size() - 1);
  const std::uint64_t bytes = c.bytes_sent(), collectives = c.collectives();
  std::vector<float> unit(static_cast<std::size_t>(count * c.size())), shard(count);
  std::vector<std::byte> scratch(c.reduce_scatter_scratch_bytes(count, DType::f32, ReduceOrder::canonical));
  c.all_gather({}, shard.data(), unit.data(), count, DType::f32);
  c.reduce_scatter({}, {unit.data(), shard.data(), scratch.data(), count});
  wait(c.barrier({}), "counted operations");
  EXPECT_EQ(c.bytes_sent() - bytes, 2 * others * count * sizeof(float));  // twice (S-1)/S of the unit
  EXPECT_EQ(c.collectives() - collectives, 2u);
  EXPECT_GT(c.busy_seconds(), 0);
}

void check_independence(Channel& blocked, Channel& free) {
  comm::HostTimeline never_yet;
  const Event later{&never_yet, 1};
  std::vector<int> all(static_cast<std::size_t>(blocked.size()));
  int mine = blocked.rank();
  const Event waiting = blocked.all_gather({&later, 1}, &mine, all.data(), 1, DType::i32);
  std::int64_t one = 1;
  wait(free.all_reduce({}, &one, 1, DType::i64, ReduceOp::sum), "all_reduce beside a blocked channel");
  EXPECT_EQ(one, free.size());
  EXPECT_FALSE(done(waiting));
  // An event of one channel orders another one.
  std::int64_t two = 2;
  const Event chained = free.all_reduce({&waiting, 1}, &two, 1, DType::i64, ReduceOp::sum);
  EXPECT_FALSE(done(chained));
  never_yet.complete(1);
  wait(chained, "all_reduce after the other channel's all_gather");
  EXPECT_TRUE(done(waiting));
  EXPECT_EQ(all.back(), blocked.size() - 1);
}

void check_everything(Channel& channel) {
  check_all_gather(channel);
  check_all_to_all(channel);
  check_reduce_scatter(channel);
  check_rows(channel);
  check_all_reduce(channel);
  check_broadcast(channel);
  check_send_recv(channel);
  check_order(channel);
  check_group(channel);
  check_counters(channel);
}

}  // namespace weft::test
