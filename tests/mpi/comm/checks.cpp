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
#include "mpi/comm/noise.hpp"

namespace weft::test {
namespace {

using comm::Channel;
using comm::Event;
using comm::ReduceOp;

std::string label(const Channel& c, const char* op, DType t, std::int64_t count) {
  return std::string(op) + " " + std::string(name_of(t)) + " x " + std::to_string(count) + " on " + c.name();
}

bool same_bytes(const void* a, const void* b, std::size_t bytes) {
  return bytes == 0 || std::memcmp(a, b, bytes) == 0;
}

/// Compares rounds of canonical reduce-scatters onto one shard with the sequential definition over all ranks.
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
    const WriteMode write = round == 0 ? WriteMode::replace : WriteMode::add;
    wait(c.reduce_scatter(
             {}, {in.data(), out.data(), scratch.data(), count, wire, DType::f32, out_type, write, order}),
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
          // half the width of T, so that sums of signed values do not overflow
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
  // This one is in place: the output is this rank's slice of the input.
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
  // This is a ring, both ways in one group. Then everybody sends to rank 0, with another number of calls
  // on each rank.
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
  mine = c.rank();  // the result that the dependency stands for
  compute.complete(7);
  wait(second, "all_gather after a late dependency");
  EXPECT_TRUE(done(first));
  for (int r = 0; r < c.size(); ++r) {
    EXPECT_EQ(all[static_cast<std::size_t>(r)], r);
    EXPECT_EQ(again[static_cast<std::size_t>(r)], r);
  }
  // With many calls under way the queue grows, and the order stays.
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
  check_rows(channel, 997, 3);
  // Far more than a mebibyte, which is what waits to be sent at a time, goes to a rank that uses all rows.
  check_rows(channel, 60007, 1);
  check_all_reduce(channel);
  check_broadcast(channel);
  check_send_recv(channel);
  check_order(channel);
  check_group(channel);
  check_counters(channel);
}

}  // namespace weft::test
