// Tests NCCL's channels on device memory by the definitions of their operations; it is built for CUDA only.
// Several ranks on one GPU need NCCL 2.29 or newer and NCCL_MULTI_RANK_GPU_ENABLE=1.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.hpp"
#include "base/dtype.hpp"
#include "comm/agree.hpp"
#include "comm/nccl/stream_graph.hpp"
#include "comm/nccl/stream_timeline.hpp"
#include "kernels/memory.hpp"
#include "mpi/comm/noise.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#ifdef WEFT_FAKECUDA
#include "fakecuda/device.hpp"
#endif

namespace weft::test {
namespace {

using comm::Channel;
using comm::Event;
using comm::ReduceOp;

std::vector<int> everybody() {
  std::vector<int> ranks(static_cast<std::size_t>(world().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// An array of the device with values of the host.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values)
      : count_(values.size()), buffer_(values.size() * sizeof(T), "nccl_test") {
    set(values);
  }
  void set(const std::vector<T>& values) {
    if (count_ > 0) copy_to_device(space_, buffer_.data(), values.data(), count_ * sizeof(T));
  }
  std::vector<T> values() {
    std::vector<T> all(count_);
    if (count_ > 0) copy_to_host(space_, all.data(), buffer_.data(), count_ * sizeof(T));
    return all;
  }
  T* data() { return reinterpret_cast<T*>(buffer_.data()); }

 private:
  std::size_t count_;
  kernels::Space space_;
  kernels::Buffer buffer_;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

class Nccl : public ::testing::Test {
 protected:
  std::unique_ptr<Channel> channel_ = world().open(everybody(), Lane::reduce, "nccl");
  Channel& c_ = *channel_;
  std::size_t ranks_ = static_cast<std::size_t>(c_.size());
};

TEST_F(Nccl, Gathers) {
  for (const DType t : {DType::f32, DType::bf16, DType::i64, DType::u8})
    for (const std::int64_t count : counts) {
      const std::size_t bytes = static_cast<std::size_t>(count) * size_of(t);
      std::vector<std::byte> expected, place(bytes * ranks_);
      for (int r = 0; r < c_.size(); ++r) {
        const std::vector<std::byte> theirs = noisy_bytes(r, bytes);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      OnDevice<std::byte> mine(noisy_bytes(c_.rank(), bytes)), out(place);
      comm::sync(c_.all_gather({}, mine.data(), out.data(), count, t));
      EXPECT_EQ(out.values(), expected) << name_of(t) << " x " << count;

      const std::vector<std::byte> own = noisy_bytes(c_.rank(), bytes);
      std::copy(own.begin(), own.end(), place.begin() + static_cast<std::ptrdiff_t>(bytes) * c_.rank());
      OnDevice<std::byte> in_place(place);
      comm::sync(c_.all_gather({}, in_place.data() + bytes * static_cast<std::size_t>(c_.rank()),
                               in_place.data(), count, t));
      EXPECT_EQ(in_place.values(), expected) << name_of(t) << " x " << count << " in place";
    }
}

TEST_F(Nccl, ExchangesBlocks) {
  for (const std::int64_t count : counts) {
    const auto block = [&](int from, int to) {
      return noisy_bytes(from * 64 + to, static_cast<std::size_t>(count) * size_of(DType::bf16));
    };
    std::vector<std::byte> in, expected;
    for (int r = 0; r < c_.size(); ++r) {
      const std::vector<std::byte> to = block(c_.rank(), r), from = block(r, c_.rank());
      in.insert(in.end(), to.begin(), to.end());
      expected.insert(expected.end(), from.begin(), from.end());
    }
    OnDevice<std::byte> sent(in), got(std::vector<std::byte>(in.size()));
    comm::sync(c_.all_to_all({}, sent.data(), got.data(), count, DType::bf16));
    EXPECT_EQ(got.values(), expected) << count;
  }
}

/// Three reduce-scatters onto one shard. In rank order the bits are those of the definition; in NCCL's own
/// order the sum of the ranks has another rounding. The operand stands in `shown` memory, where there is
/// some; a sum in rank order then needs no scratch.
template <class Wire, class Out>
void check_sum(Channel& c, std::int64_t count, DType wire, DType out_type, ReduceOrder order,
               std::byte* shown = nullptr) {
  const std::string what =
      fmt::format("{} x {} to {} on {} ranks", name_of(wire), count, name_of(out_type), c.size());
  const auto slice = static_cast<std::size_t>(count);
  const bool wants_scratch = shown == nullptr || order == ReduceOrder::native;
  const std::size_t needed = wants_scratch ? c.reduce_scatter_scratch_bytes(count, wire, order) : 0;
  kernels::Space space;
  OnDevice<Out> out{std::vector<Out>(slice)};
  OnDevice<std::byte> scratch(std::vector<std::byte>(needed + 64, std::byte{0x5a}));
  std::vector<Out> expected(slice);
  std::vector<double> magnitude(slice, 0.0);
  for (int round = 0; round < 3; ++round) {
    std::vector<Wire> in(slice * static_cast<std::size_t>(c.size()));
    for (std::size_t i = 0; i < in.size(); ++i)
      in[i] = convert<Wire>(real(c.rank(), static_cast<std::int64_t>(i), round));
    OnDevice<Wire> unit(in);
    const Wire* operand = unit.data();
    if (shown != nullptr && !in.empty()) {
      copy_to_device(space, shown, in.data(), in.size() * sizeof(Wire));
      operand = reinterpret_cast<const Wire*>(shown);
    }
    const WriteMode write = round == 0 ? WriteMode::replace : WriteMode::add;
    comm::sync(c.reduce_scatter(
        {}, {operand, out.data(), scratch.data(), count, wire, DType::f32, out_type, write, order}));
    for (std::size_t i = 0; i < slice; ++i) {
      const auto global = static_cast<std::int64_t>(i) + c.rank() * count;
      float sum = round == 0 ? 0 : to_float(expected[i]);
      for (int r = 0; r < c.size(); ++r) {
        const float x = to_float(convert<Wire>(real(r, global, round)));
        sum = round == 0 && r == 0 ? x : sum + x;
        magnitude[i] += std::abs(x);
      }
      expected[i] = convert<Out>(sum);
    }
    const std::vector<Out> got = out.values();
    if (order == ReduceOrder::canonical) {
      EXPECT_TRUE(same_bits(got, expected)) << what << " round " << round;
    } else {
      // Ranks that left a test early would leave the others in a collective, so an element's error ends
      // nothing.
      const double rounding = wire == DType::bf16 || out_type == DType::bf16 ? 0x1p-6 : 0x1p-21;
      std::size_t far = 0;
      for (std::size_t i = 0; i < slice; ++i)
        far += std::abs(to_float(got[i]) - to_float(expected[i])) <= rounding * magnitude[i] ? 0 : 1;
      EXPECT_EQ(far, 0u) << what << " in NCCL's order, round " << round;
    }
  }
  const std::vector<std::byte> after = scratch.values();
  EXPECT_TRUE(std::all_of(after.begin() + static_cast<std::ptrdiff_t>(needed), after.end(),
                          [](std::byte b) { return b == std::byte{0x5a}; }))
      << what << " wrote past scratch";
}

TEST_F(Nccl, ReduceScatters) {
  for (const ReduceOrder order : {ReduceOrder::canonical, ReduceOrder::native})
    for (const std::int64_t count : counts) {
      check_sum<float, float>(c_, count, DType::f32, DType::f32, order);
      check_sum<bf16, float>(c_, count, DType::bf16, DType::f32, order);
      check_sum<float, bf16>(c_, count, DType::f32, DType::bf16, order);
      check_sum<bf16, bf16>(c_, count, DType::bf16, DType::bf16, order);
    }
}

/// Slices that are exchanged in several portions.
TEST_F(Nccl, ReduceScattersInPortions) {
  check_sum<float, float>(c_, (std::int64_t{20} << 20) + 3, DType::f32, DType::f32, ReduceOrder::canonical);
}

TEST_F(Nccl, ReducesOntoItsOwnSlice) {
  const std::int64_t count = 5003;
  std::vector<float> in(static_cast<std::size_t>(count) * ranks_);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = real(c_.rank(), static_cast<std::int64_t>(i));
  OnDevice<float> unit(in);
  OnDevice<std::byte> scratch(
      std::vector<std::byte>(c_.reduce_scatter_scratch_bytes(count, DType::f32, ReduceOrder::canonical)));
  comm::sync(c_.reduce_scatter({}, {unit.data(), unit.data() + c_.rank() * count, scratch.data(), count}));
  const std::vector<float> after = unit.values();
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = real(0, c_.rank() * count + i);
    for (int r = 1; r < c_.size(); ++r) sum += real(r, c_.rank() * count + i);
    ASSERT_EQ(after[static_cast<std::size_t>(c_.rank() * count + i)], sum) << i;
  }
}

/// Memory of the world that is shown to a channel. Without it (on one rank, or where GPUs cannot read each
/// other's memory) memory() is null.
class ShownMemory {
 public:
  ShownMemory(Channel& channel, std::size_t bytes) : channel_(channel), memory_(world().allocate(bytes)) {
    const bool all = comm::on_all_ranks(world(), memory_ != nullptr);
    const std::array<std::span<std::byte>, 2> stretches{std::span(memory_.get(), bytes),
                                                        std::span<std::byte>()};
    if (all) why_ = channel_.show_memory(stretches);
    shown_ = all && comm::on_all_ranks(world(), why_.empty());
    if (!shown_) channel_.hide_memory();
#ifdef WEFT_FAKECUDA
    EXPECT_EQ(shown_, world().size() > 1) << why_;
#endif
  }
  /// Its channel's calls are done on all ranks before memory is freed.
  ~ShownMemory() {
    channel_.forget_memory();
    world().barrier();
  }
  ShownMemory(const ShownMemory&) = delete;
  ShownMemory& operator=(const ShownMemory&) = delete;
  std::byte* memory() const {
    return shown_ ? memory_.get() : nullptr;
  }
  const std::string& why() const {
    return why_;
  }

 private:
  Channel& channel_;
  std::shared_ptr<std::byte> memory_;
  std::string why_;
  bool shown_ = false;
};

/// All sums by slices that are read where they stand, at a place with packets and at one without. The last
/// count is more than one turn of all threads.
TEST_F(Nccl, ReadsTheSlicesOfItsPeers) {
  const ShownMemory shown(c_, ranks_ * 200003 * sizeof(float) + 64);
  if (shown.memory() == nullptr) GTEST_SKIP() << "ranks cannot read each other's memory: " << shown.why();
  for (const std::size_t shift : {0, 4})
    for (const std::int64_t count : {0, 1, 3, 255, 257, 20011, 200003}) {
      std::byte* const at = shown.memory() + shift;
      constexpr ReduceOrder order = ReduceOrder::canonical;
      check_sum<float, float>(c_, count, DType::f32, DType::f32, order, at);
      if (count > 20011) continue;
      check_sum<bf16, float>(c_, count, DType::bf16, DType::f32, order, at);
      check_sum<float, bf16>(c_, count, DType::f32, DType::bf16, order, at);
      check_sum<bf16, bf16>(c_, count, DType::bf16, DType::bf16, order, at);
    }
  // What is not shown, or is added in NCCL's order, goes as before.
  check_sum<float, float>(c_, 20011, DType::f32, DType::f32, ReduceOrder::canonical);
  check_sum<bf16, float>(c_, 20011, DType::bf16, DType::f32, ReduceOrder::native, shown.memory());
}

/// A group of two units, one onto its own slice, in a graph that runs three times, with a run without it in
/// between. As soon as a sum's event holds, its operand is overwritten: no other rank may still read it.
/// `out` lies at an odd place on odd ranks, which may not change the number of their blocks.
TEST_F(Nccl, PeersAreReadInAGraph) {
  constexpr std::int64_t count = 20011;
  const std::size_t unit = ranks_ * count, bytes = 2 * unit * sizeof(float);
  const ShownMemory shown(c_, bytes);
  if (shown.memory() == nullptr) GTEST_SKIP() << "ranks cannot read each other's memory: " << shown.why();
  auto* const operand = reinterpret_cast<float*>(shown.memory());
  kernels::Space space;
  OnDevice<float> input{std::vector<float>(2 * unit)}, junk{std::vector<float>(2 * unit, 1e30F)};
  OnDevice<float> sum{std::vector<float>(count + 1)}, own{std::vector<float>(count)};
  float* const out = sum.data() + c_.rank() % 2;
  float* const slice = operand + unit + static_cast<std::size_t>(c_.rank()) * count;
  comm::StreamTimeline compute(native_stream(space), comm::Timing::off);
  const auto step = [&] {
    copy(space, operand, input.data(), bytes);
    compute.begin();
    const Event ready = compute.end();
    c_.group_begin();
    c_.reduce_scatter({&ready, 1}, {operand, out, nullptr, count});
    const Event summed = c_.reduce_scatter({}, {operand + unit, slice, nullptr, count});
    c_.group_end();
    compute.wait({&summed, 1});
    copy(space, own.data(), slice, count * sizeof(float));
    copy(space, operand, junk.data(), bytes);
  };
  comm::StreamGraph::begin(compute.stream());
  compute.begin_capture();
  compute.begin();
  const Event fork = compute.end();
  c_.begin_capture(fork);
  step();
  const auto calls = c_.end_capture();
  compute.end_capture();
  comm::StreamGraph graph(compute.stream());
  for (int run = 0; run < 4; ++run) {
    std::vector<float> values(2 * unit);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = real(c_.rank(), static_cast<std::int64_t>(i), run);
    input.set(values);
    if (run == 2) {
      step();
    } else {
      graph.launch();
    }
    fence(space);
    if (run != 2) calls->count_run();
    const std::vector<float> sums = sum.values(), owns = own.values();
    std::size_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t first = c_.rank() * count + i, second = first + static_cast<std::int64_t>(unit);
      float a = real(0, first, run), b = real(0, second, run);
      for (int r = 1; r < c_.size(); ++r) {
        a += real(r, first, run);
        b += real(r, second, run);
      }
      const auto at = static_cast<std::size_t>(i);
      wrong += sums[at + static_cast<std::size_t>(c_.rank() % 2)] == a && owns[at] == b ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0u) << "run " << run;
  }
}

template <class T>
void check_all_reduce(Channel& c, DType t, std::int64_t count) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    std::vector<T> mine(static_cast<std::size_t>(count)), expected(mine.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      // Small integers, which every type adds exactly in any order.
      const auto value = [&](int r) { return static_cast<T>(noise(r, static_cast<std::int64_t>(i)) % 1000); };
      mine[i] = value(c.rank());
      expected[i] = value(0);
      for (int r = 1; r < c.size(); ++r)
        expected[i] = op == ReduceOp::sum   ? static_cast<T>(expected[i] + value(r))
                      : op == ReduceOp::max ? std::max(expected[i], value(r))
                                            : std::min(expected[i], value(r));
    }
    OnDevice<T> buffer(mine);
    comm::sync(c.all_reduce({}, buffer.data(), count, t, op));
    EXPECT_EQ(buffer.values(), expected) << name_of(t) << " x " << count << ' ' << static_cast<int>(op);
  }
}

TEST_F(Nccl, AllReduces) {
  for (const std::int64_t count : counts) {
    check_all_reduce<float>(c_, DType::f32, count);
    check_all_reduce<double>(c_, DType::f64, count);
    check_all_reduce<std::int32_t>(c_, DType::i32, count);
    check_all_reduce<std::int64_t>(c_, DType::i64, count);
    check_all_reduce<std::uint32_t>(c_, DType::u32, count);
    check_all_reduce<std::uint64_t>(c_, DType::u64, count);
  }
}

TEST_F(Nccl, Broadcasts) {
  for (int root = 0; root < c_.size(); ++root)
    for (const std::int64_t bytes : {1, 257, 100003}) {
      OnDevice<std::byte> buffer(noisy_bytes(c_.rank(), static_cast<std::size_t>(bytes)));
      comm::sync(c_.broadcast({}, buffer.data(), bytes, root));
      EXPECT_EQ(buffer.values(), noisy_bytes(root, static_cast<std::size_t>(bytes)));
    }
}

TEST_F(Nccl, SendsAroundARing) {
  if (c_.size() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  const std::size_t bytes = 70001;
  const int next = (c_.rank() + 1) % c_.size(), previous = (c_.rank() + c_.size() - 1) % c_.size();
  OnDevice<std::byte> mine(noisy_bytes(c_.rank(), bytes)), got{std::vector<std::byte>(bytes)};
  c_.group_begin();
  c_.send({}, mine.data(), static_cast<std::int64_t>(bytes), next);
  const Event received = c_.recv({}, got.data(), static_cast<std::int64_t>(bytes), previous);
  c_.group_end();
  comm::sync(received);
  EXPECT_EQ(got.values(), noisy_bytes(previous, bytes));
}

/// Calls of a group run together, and the counters have the closed forms.
TEST_F(Nccl, Groups) {
  constexpr int units = 7;
  const std::uint64_t sent_before = c_.bytes_sent();
  std::vector<OnDevice<float>> mine, all, sums;
  std::vector<OnDevice<std::byte>> scratch;
  std::vector<std::int64_t> sizes;
  for (int u = 0; u < units; ++u) {
    const std::int64_t count = u * 1000 + 1;
    sizes.push_back(count);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = real(c_.rank(), static_cast<std::int64_t>(i), u);
    mine.emplace_back(values);
    all.emplace_back(std::vector<float>(values.size() * ranks_));
    sums.emplace_back(std::vector<float>(values.size()));
    scratch.emplace_back(
        std::vector<std::byte>(c_.reduce_scatter_scratch_bytes(count, DType::f32, ReduceOrder::canonical)));
  }
  Event gathered, summed;
  c_.group_begin();
  for (std::size_t u = 0; u < units; ++u)
    gathered = c_.all_gather({}, mine[u].data(), all[u].data(), sizes[u], DType::f32);
  c_.group_end();
  c_.group_begin();
  for (std::size_t u = 0; u < units; ++u)
    summed = c_.reduce_scatter({&gathered, 1}, {all[u].data(), sums[u].data(), scratch[u].data(), sizes[u]});
  c_.group_end();
  comm::sync(summed);
  std::uint64_t elements = 0;
  for (std::size_t u = 0; u < units; ++u) {
    elements += static_cast<std::uint64_t>(sizes[u]);
    const std::vector<float> sum = sums[u].values();
    for (std::int64_t i = 0; i < sizes[u]; ++i) {
      // Every rank has the same gathered unit, so each slice is added as often as there are ranks.
      const float x = real(c_.rank(), i, static_cast<int>(u));
      float expected = x;
      for (int r = 1; r < c_.size(); ++r) expected += x;
      ASSERT_EQ(sum[static_cast<std::size_t>(i)], expected) << u << ' ' << i;
    }
  }
  EXPECT_EQ(c_.bytes_sent() - sent_before, 2 * (ranks_ - 1) * elements * sizeof(float));
}

/// A call waits for another stream's event, and another stream waits for the call, in a graph that runs three
/// times. Memory of the world is registered.
TEST_F(Nccl, IsCapturedWithAnotherStream) {
  constexpr std::int64_t count = 1 << 20;
  constexpr std::size_t bytes = count * sizeof(float);
  const std::shared_ptr<std::byte> memory = world().allocate((ranks_ + 2) * bytes);
  const kernels::Buffer plain(memory ? 0 : (ranks_ + 2) * bytes, "unregistered");
  std::byte* const base = memory ? memory.get() : plain.data();
  if (memory) {
    const bool registered = c_.register_memory(base, (ranks_ + 2) * bytes);
#ifdef WEFT_FAKECUDA
    EXPECT_TRUE(registered);
#else
    static_cast<void>(registered);  // not everything between GPUs can do without copies
#endif
  }
  std::byte *const mine = base, *const all = base + bytes, *const result = base + (ranks_ + 1) * bytes;
  kernels::Space space;
  OnDevice<float> input{std::vector<float>(count)};
  comm::StreamTimeline compute(native_stream(space), comm::Timing::off);

  comm::StreamGraph::begin(compute.stream());
  compute.begin_capture();
  compute.begin();
  const Event fork = compute.end();
  c_.begin_capture(fork);
  copy(space, mine, input.data(), bytes);
  compute.begin();
  const Event ready = compute.end();
  const Event gathered = c_.all_gather({&ready, 1}, mine, all, count, DType::f32);
  compute.wait({&gathered, 1});
  copy(space, result, all + (ranks_ - 1) * bytes, bytes);
  const auto calls = c_.end_capture();
  compute.end_capture();
  {
    comm::StreamGraph graph(compute.stream());
    for (int run = 0; run < 3; ++run) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = real(c_.rank(), static_cast<std::int64_t>(i), run);
      input.set(values);
      const std::uint64_t before = c_.bytes_sent();
      graph.launch();
      fence(space);
      calls->count_run();
      EXPECT_EQ(c_.bytes_sent() - before, (ranks_ - 1) * bytes);
      std::vector<float> got(count);
      copy_to_host(space, got.data(), result, bytes);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        wrong += got[i] == real(c_.size() - 1, static_cast<std::int64_t>(i), run) ? 0 : 1;
      EXPECT_EQ(wrong, 0u) << "run " << run;
    }
  }
  c_.forget_memory();
  world().barrier();
}

#ifdef WEFT_FAKECUDA
/// A sum without scratch whose operand no other rank can read is refused on all ranks, before it calls NCCL.
void expect_refused(Channel& c, const void* memory, std::int64_t count) {
  OnDevice<float> out{std::vector<float>(static_cast<std::size_t>(count))};
  try {
    c.reduce_scatter({}, {memory, out.data(), nullptr, count});
    ADD_FAILURE() << "it was called";
  } catch (const std::logic_error& e) {
    const std::string line = e.what();
    EXPECT_NE(line.find(": a reduce-scatter has no scratch for messages"), std::string::npos) << line;
  }
}

/// One rank cannot show its memory, or none can. Messages then make the same sums, from the same memory.
TEST_F(Nccl, MemoryIsShownByAllRanksOrByNone) {
  if (c_.size() == 1) GTEST_SKIP() << "one rank has no peers";
  const std::string said = "NCCL's error of the preset fakecuda: FAKECUDA_FAULT asks for it";
  struct Fault {
    const char* call;
    bool everywhere;
    std::string why;
  };
  const Fault faults[] = {
      {"ncclCommWindowRegister", false, "ncclCommWindowRegister: " + said},
      {"ncclDevCommCreate", false, "ncclDevCommCreate: " + said},
      {"ncclTeamLsa", true, fmt::format("a rank can read the memory of 1 of {} ranks", c_.size())},
      {"ncclGetVersion", true, "Weft was compiled with the headers of NCCL "}};
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.call);
    const bool here = fault.everywhere || c_.rank() == c_.size() - 1;
    const std::shared_ptr<std::byte> memory = world().allocate(ranks_ * 257 * sizeof(float));
    const std::array<std::span<std::byte>, 1> stretches{
        std::span(memory.get(), ranks_ * 257 * sizeof(float))};
    if (here) ::setenv("FAKECUDA_FAULT", fault.call, 1);
    const std::string why = c_.show_memory(stretches);
    ::unsetenv("FAKECUDA_FAULT");
    EXPECT_EQ(why.substr(0, fault.why.size()), here ? fault.why : "");
    c_.hide_memory();
    expect_refused(c_, memory.get(), 257);
    EXPECT_EQ(fakecuda::objects("windows") + fakecuda::objects("device communicators"), 0);
    check_sum<float, float>(c_, 257, DType::f32, DType::f32, ReduceOrder::canonical);
    world().barrier();
  }
}

/// The fake devices differ in their unique number alone, as instances of one GPU do.
TEST_F(Nccl, RanksOnDevicesOfTheirOwnShareNone) {
  EXPECT_EQ(world().device_sharers(), 1);
}

/// NCCL's code says "unhandled system error" of much; what it says of the last one tells which.
TEST_F(Nccl, AnErrorHasNcclsOwnWords) {
  OnDevice<float> buffer(std::vector<float>(4));
  std::string line;
  ::setenv("FAKECUDA_FAULT", "ncclAllReduce", 1);
  try {
    c_.all_reduce({}, buffer.data(), 4, DType::f32, ReduceOp::sum);
  } catch (const Error& e) {
    line = e.what();
  }
  ::unsetenv("FAKECUDA_FAULT");
  EXPECT_NE(
      line.find(": NCCL's error of the preset fakecuda; NCCL's last message: FAKECUDA_FAULT asks for it ("),
      std::string::npos)
      << line;
}

/// A channel has more calls pending than a timeline has marks for at first. A gate holds all but the first
/// ones back, so that it is known how many are done.
TEST_F(Nccl, CountsTheCallsThatAreDoneHoweverManyArePending) {
  constexpr std::size_t before = 300, pending = 1500;
  kernels::Space space;
  comm::StreamTimeline compute(native_stream(space), comm::Timing::off);
  const auto done = [](const std::vector<Event>& events) {
    return static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(), [](const Event& e) { return comm::done(e); }));
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < before; ++i) events.push_back(c_.barrier({}));
  comm::sync(events.back());
  const auto open = std::make_shared<std::atomic<bool>>(false);
  ASSERT_EQ(fakecuda::enqueue(static_cast<cudaStream_t>(compute.stream()), "a gate",
                              [open] {
                                return fakecuda::Work([open] {
                                  return *open ? fakecuda::Turn::done : fakecuda::Turn::waiting;
                                });
                              }),
            cudaSuccess);
  compute.begin();
  const Event gate = compute.end();
  for (std::size_t i = 0; i < pending; ++i)
    events.push_back(i == 0 ? c_.barrier({&gate, 1}) : c_.barrier({}));
  EXPECT_EQ(done(events), before);
  *open = true;
  comm::sync(events.back());
  EXPECT_EQ(done(events), before + pending);
  EXPECT_GT(c_.busy_seconds(), 0);
  // What has ended is waited for without marks.
  comm::sync(events.front());
  compute.wait({events.data(), 1});
  EXPECT_EQ(c_.barrier({}).value, before + pending + 1);
}
#endif

/// Channels of one lane over parts of the ranks, and a second lane beside them.
TEST_F(Nccl, SubsetsOfRanks) {
  std::vector<int> some;
  for (int r = world().rank() % 2; r < world().size(); r += 2) some.push_back(r);
  const auto part = world().open(some, Lane::gather, "parity");
  OnDevice<std::int32_t> mine(std::vector<std::int32_t>{world().rank()});
  OnDevice<std::int32_t> got{std::vector<std::int32_t>(some.size(), -1)};
  comm::sync(part->all_gather({}, mine.data(), got.data(), 1, DType::i32));
  EXPECT_EQ(got.values(), some);
  comm::sync(part->barrier({}));
  EXPECT_GT(part->busy_seconds(), 0);
}

}  // namespace
}  // namespace weft::test
