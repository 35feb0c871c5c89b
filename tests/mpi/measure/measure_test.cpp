// Tests measuring a machine on several ranks: all agree, and a size is the number of bytes that travel.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/device.hpp"
#include "base/hash.hpp"
#include "kernels/attention.hpp"
#include "kernels/device_properties.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/float8_matmul.hpp"
#include "kernels/matmul.hpp"
#include "kernels/memory.hpp"
#include "machine/predict.hpp"
#include "machine/profile.hpp"
#include "measure/collectives.hpp"
#include "measure/exchanges.hpp"
#include "measure/machine.hpp"
#include "measure/noise.hpp"
#include "measure/rates.hpp"
#include "measure/sharing.hpp"
#include "measure/step.hpp"
#include "measure/timing.hpp"
#include "runtime/machine_profile.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/small_deck.hpp"
#include "support/temporary_directory.hpp"

namespace weft::test {
namespace {

using ir::Op;

/// Expects `number` to be rank 0's on every rank.
void expect_same(std::uint64_t number) {
  const std::string mine = std::to_string(number);
  EXPECT_EQ(mine, world().broadcast(mine, 0));
}

TEST(Exchanges, ASizeIsWhatARankSends) {
  runtime::Session session(Deck{}, world());
  if (session.ranks() == 1) GTEST_SKIP() << "nothing travels";
  const double most = 1 << 21;
  measure::Exchanges x(session, most, ReduceOrder::canonical);
  ASSERT_EQ(x.most(), most);
  x.hold(most);
  std::map<const comm::Channel*, std::uint64_t> before;
  const auto sent_by = [&before](comm::Channel& channel, const comm::Event& event) {
    comm::sync(event);
    const std::uint64_t now = channel.bytes_sent();
    const std::uint64_t sent = now - before[&channel];
    before[&channel] = now;
    return static_cast<double>(sent);
  };
  for (const double bytes : {1024.0, 65536.0, most}) {
    EXPECT_EQ(sent_by(*session.channel(Lane::gather), x.gather(bytes)),
              x.sent(Op::all_gather, bytes, DType::f32));
    for (const DType wire : {DType::f32, DType::bf16}) {
      EXPECT_EQ(sent_by(*session.channel(Lane::reduce), x.reduce(bytes, wire)),
                x.sent(Op::reduce_scatter, bytes, wire));
      EXPECT_NEAR(x.sent(Op::reduce_scatter, bytes, wire), bytes, 8);
    }
    const double all = sent_by(*session.channel(Lane::reduce), x.all_reduce(bytes));
    if (bytes > 100e3) {  // large sizes do not take the way for small ones
      EXPECT_NEAR(all, x.sent(Op::all_reduce, bytes, DType::f32), 32);
    }
    EXPECT_NEAR(x.sent(Op::all_reduce, bytes, DType::f32), bytes, 16);
  }
}

/// Where there are many ranks, a small size is less than an element for each of them.
TEST(Exchanges, TheirBuffersHoldWholeElementsOfEachRank) {
  for (const int ranks : {2, 3, 384, 512, 100000})
    for (double bytes = 1 << 10; bytes <= 256 << 20; bytes *= 2) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(bytes) + " bytes");
      const measure::ExchangeBytes room = measure::exchange_bytes(bytes, ranks);
      for (const DType wire : {DType::f32, DType::bf16}) {
        const std::int64_t elements = measure::elements_of_part(bytes, ranks, wire);
        const auto size = static_cast<std::int64_t>(size_of(wire));
        EXPECT_GE(elements, 1);
        EXPECT_GE(room.part, elements * size);
        EXPECT_GE(room.whole, elements * size * ranks);
        EXPECT_GE(room.sum, elements * 4);
      }
      EXPECT_LE(static_cast<double>(room.whole), std::max(bytes * ranks / (ranks - 1), 4.0 * ranks))
          << "more is held than what_fits() counts";
    }
}

TEST(ReplicaSums, ASizeIsWhatARankSends) {
  if (world().size() == 1) GTEST_SKIP() << "nothing travels";
  const Deck deck =
      small_deck({"parallel.mesh={ replica = " + std::to_string(world().size()) + ", data = 1 }"});
  runtime::Session session(deck, world());
  for (const auto order : {ReduceOrder::canonical, ReduceOrder::native}) {
    measure::ReplicaSums sums(session, 1 << 21, order);
    sums.hold(sums.most());
    for (const double bytes : {65536.0 * 4, sums.most()}) {
      const std::uint64_t before = session.channel(Lane::replica)->bytes_sent();
      comm::sync(sums.start(bytes));
      session.world().barrier();
      EXPECT_NEAR(static_cast<double>(session.channel(Lane::replica)->bytes_sent() - before),
                  sums.sent(bytes), 32);
      EXPECT_NEAR(sums.sent(bytes), bytes, 8.0 * world().size());
    }
  }
}

TEST(Timing, TheTypicalRankIsTheMiddleOne) {
  const int ranks = world().size();
  const double mine = world().rank() == ranks - 1 ? 1e9 : world().rank();
  const double middle = ranks == 1 ? 1e9 : ranks == 2 ? 5e8 : ranks == 3 ? 1 : 1.5;
  EXPECT_EQ(measure::typical(world(), mine), middle);
}

TEST(MeasureCollectives, WithoutTimeSmallSizesAreThereAndTheRestIsNoted) {
  runtime::Session session(Deck{}, world());
  if (session.ranks() == 1) GTEST_SKIP() << "nothing travels";
  measure::Exchanges x(session, 1 << 23, ReduceOrder::canonical);
  const measure::CollectiveSweep sweep = measure_collectives(x, world(), 1, 0);
  ASSERT_EQ(sweep.curves.size(), 4U);
  for (const machine::CollectiveCurve& c : sweep.curves) {
    EXPECT_EQ(c.points.size(), 11U) << "1 KiB to 1 MiB";
    EXPECT_NEAR(c.points.back().bytes, 1 << 20, 16);
  }
  ASSERT_EQ(sweep.skipped.size(), 4U);
  EXPECT_EQ(sweep.skipped[0], "all_gather f32 above 1.00 MiB: not enough time (--seconds)");
}

/// Measures for a second, and expects that all ranks agree on the result, and that a file holds it.
measure::Measured measured_in_a_second(const Deck& deck, runtime::Session& session) {
  measure::MachineOptions options;
  options.seconds = 1;
  measure::Measured m = measure_machine(&deck, session, options);
  expect_same(hash_of(m.profile));
  EXPECT_EQ(machine::parse_profile(print_profile(m.profile), "m.toml"), m.profile);
  return m;
}

TEST(MeasureMachine, AllRanksAgree) {
  const Deck deck = small_deck();
  runtime::Session session(deck, world());
  const measure::Measured m = measured_in_a_second(deck, session);
  EXPECT_EQ(m.profile.ranks_per_node, world().size());
  EXPECT_GT(m.profile.compute.memory_bytes, 0);
  EXPECT_GT(m.profile.kernels.size(), 20U);
  EXPECT_FALSE(summary(m).empty());
  for (const machine::CollectiveCurve& c : m.profile.collectives) {
    if (world().size() > 1) {
      EXPECT_EQ(c.ranks, world().size());
    }
    EXPECT_GE(c.points.back().bytes, 1 << 19) << name_of(c.op);
  }
  ASSERT_TRUE(m.compute_only.has_value());
  EXPECT_GT(*m.compute_only, 0);
  EXPECT_GT(m.sum_of_kernels, 0);
}

/// Seconds of a kernel to its end: the least of five, behind one that warms up.
double seconds_of_kernel(runtime::Session& session, const std::function<void()>& kernel) {
  std::vector<double> seconds;
  for (int i = 0; i < 6; ++i) {
    const double start = seconds_now();
    kernel();
    kernels::fence(session.space());
    if (i > 0) seconds.push_back(seconds_now() - start);
  }
  return measure::least(seconds);
}

/// The rates of these kernels, counted by hand: of a product of two matrices 2 n^3 FLOP, of attention's two
/// products the causal half, of a + b = c three arrays.
machine::Compute rates_by_hand(runtime::Session& session) {
  const measure::Noise noise(session.space());
  const auto product = [&](DType type) {
    constexpr std::int64_t n = 1024;
    kernels::MatmulSpec spec{};
    spec.f32_products = session.matmuls().f32_products();
    spec.form = kernels::MatmulForm::forward;
    spec.rows = spec.in = spec.out = n;
    spec.type = spec.result = type;
    kernels::Matmul matmul(spec);
    const kernels::Buffer a = noise.buffer(n * n, type), b = noise.buffer(n * n, type);
    const kernels::Buffer c(n * n * size_of(type), "test"), scratch(matmul.scratch_bytes(), "test");
    return 2.0 * n * n * n / seconds_of_kernel(session, [&] {
             matmul.run(session.space(), a.data(), b.data(), c.data(), scratch.data());
           });
  };
  const auto attention = [&] {
    constexpr std::int64_t seq = 1024, heads = 8, head_dim = 64;
    const kernels::AttentionShape shape{1, seq, heads, heads, head_dim};
    constexpr std::int64_t n = seq * heads * head_dim;
    const DType type = DType::bf16;
    const kernels::Buffer q = noise.buffer(n, type), k = noise.buffer(n, type), v = noise.buffer(n, type);
    const kernels::Buffer o(n * size_of(type), "test"), lse(heads * seq * sizeof(float), "test"),
        scratch(kernels::attention_scratch_bytes(shape, type), "test");
    return 2 * (2.0 * seq * seq * head_dim * heads) / 2 / seconds_of_kernel(session, [&] {
             kernels::attention(session.space(), shape, type, q.data(), k.data(), v.data(), o.data(),
                                reinterpret_cast<float*>(lse.data()), scratch.data());
           });
  };
  const auto seconds_of_sums = [&](std::int64_t n, int sums) {
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(float);
    const kernels::Buffer a(bytes, "test"), b(bytes, "test"), c(bytes, "test");
    return seconds_of_kernel(session, [&] {
      for (int i = 0; i < sums; ++i) {
        kernels::add(session.space(), n, DType::f32, a.data(), b.data(), c.data());
        kernels::fence(session.space());
      }
    });
  };
  machine::Compute rates;
  rates.matmul_f32 = product(DType::f32);
  rates.matmul_bf16 = product(DType::bf16);
  rates.attention = attention();
  constexpr std::int64_t large = 16 << 20;
  rates.bytes_per_s = 3 * sizeof(float) * large / seconds_of_sums(large, 1);
  constexpr int small_sums = 200;
  rates.launch_s = seconds_of_sums(64, small_sums) / small_sums;
  return rates;
}

/// A rate that counts other FLOP is wrong by a factor of two. What else goes on on the machine makes rates
/// smaller, so the best of several are compared, and of more of them where it is busy.
TEST(MeasureRates, AreThoseThatAreCountedByHand) {
  if (!device_is_host()) GTEST_SKIP() << "the sizes are those of a host";
  if (world().size() > 1) GTEST_SKIP() << "one rank is enough";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "kernels take ten times as long";
#endif
  runtime::Session session(Deck{}, world());
  std::map<std::string, std::pair<double, double>> best;  // measured, and counted by hand
  const auto keep_best = [&](const char* name, double measured, double by_hand) {
    auto& [most_measured, most_by_hand] = best[name];
    most_measured = std::max(most_measured, measured);
    most_by_hand = std::max(most_by_hand, by_hand);
  };
  const auto fits = [&] {
    return std::all_of(best.begin(), best.end(), [](const auto& rate) {
      const double ratio = rate.second.first / rate.second.second;
      return ratio > 0.6 && ratio < 1.67;
    });
  };
  for (int i = 0; i < 3 || (i < 20 && !fits()); ++i) {
    const machine::Compute rates = measure::measure_rates(session), hand = rates_by_hand(session);
    EXPECT_EQ(rates.threads, kernels::concurrency());
    EXPECT_EQ(rates.matmul_f8 + rates.matmul_f8_tensorwise, 0) << "a host has no such products";
    keep_best("matmul_f32", rates.matmul_f32, hand.matmul_f32);
    keep_best("matmul_bf16", rates.matmul_bf16, hand.matmul_bf16);
    keep_best("attention", rates.attention, hand.attention);
    keep_best("bytes_per_s", rates.bytes_per_s, hand.bytes_per_s);
    keep_best("1 / launch_s", 1 / rates.launch_s, 1 / hand.launch_s);
  }
  EXPECT_TRUE(fits()) << ::testing::PrintToString(best);
}

/// Kernels of many sizes read all of it.
TEST(Noise, IsTheSameNormalNumbersToTheEnd) {
  runtime::Session session(Deck{}, world());
  const measure::Noise noise(session.space());
  constexpr auto period = static_cast<std::int64_t>(measure::Noise::period);
  for (const DType type : {DType::f32, DType::bf16, DType::e4m3, DType::e5m2})
    for (const std::int64_t elements : {std::int64_t{1}, period, 5 * period + 17}) {
      SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(elements));
      const kernels::Buffer buffer = noise.buffer(elements, type);
      std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * size_of(type));
      ASSERT_EQ(buffer.size(), bytes.size());
      kernels::copy_to_host(session.space(), bytes.data(), buffer.data(), bytes.size());
      const auto number = [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        if (type == DType::f32) return reinterpret_cast<const float*>(bytes.data())[at];
        if (type == DType::bf16) return to_float(reinterpret_cast<const bf16*>(bytes.data())[at]);
        if (type == DType::e4m3) return to_float(reinterpret_cast<const e4m3*>(bytes.data())[at]);
        return to_float(reinterpret_cast<const e5m2*>(bytes.data())[at]);
      };
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < elements; ++i) {
        sum += number(i);
        squares += static_cast<double>(number(i)) * number(i);
        ASSERT_EQ(number(i), number(i % period)) << i;
      }
      const auto count = static_cast<double>(elements);
      if (elements > 1) {
        EXPECT_NEAR(sum / count, 0, 0.03);
        EXPECT_NEAR(squares / count, 1, 0.03);
      } else {
        EXPECT_NE(sum, 0);
      }
    }
}

/// Ranks need not have the same kernels, nor in the same order.
TEST(MeasureStep, KernelsOfAllRanksHaveTheTimeOfTheSlowest) {
  const int ranks = world().size();
  const auto of_all = [](int slowest) {
    return machine::KernelSample{"add f32[4]", (slowest + 1) / 3e6, 11, 13};
  };
  const auto of_one = [](int rank) {
    return machine::KernelSample{"matmul f32[8,8] -> f32[" + std::to_string(rank) + "]", 0.1 * (rank + 1), 5,
                                 7};
  };
  std::vector<machine::KernelSample> own{of_all(world().rank()), of_one(world().rank())};
  if (world().rank() % 2 == 1) std::swap(own[0], own[1]);
  std::vector<machine::KernelSample> expected{of_all(ranks - 1)};
  for (int rank = 0; rank < ranks; ++rank) expected.push_back(of_one(rank));
  EXPECT_EQ(measure::of_all_ranks(world(), own), expected);
}

TEST(MeasureStep, InAPipeItHasTheKernelsOfAllStages) {
  if (world().size() % 2 != 0) GTEST_SKIP() << "two stages";
  const Deck deck =
      small_deck({"parallel.mesh={ pipe = 2, data = " + std::to_string(world().size() / 2) + " }"});
  runtime::Session session(deck, world());
  measure::Step step(deck, session);
  machine::Profile profile = default_profile(machine::DefaultProfile::host);
  profile.kernels = step.kernels(0.01);
  expect_same(hash_of(profile));
  const machine::Prediction sum = predict(step.plan().graph, machine::CostModel(profile));
  EXPECT_EQ(sum.measured, sum.kernels);
  for (const char* op : {"embedding ", "cross_entropy"}) {
    const auto is_of_op = [&](const machine::KernelSample& k) {
      return k.signature.find(op) != std::string::npos;
    };
    EXPECT_TRUE(std::any_of(profile.kernels.begin(), profile.kernels.end(), is_of_op)) << op;
  }
}

/// Whether CUDA's libraries are fakes. These have three algorithms for each product.
bool on_fakes() {
  const auto properties = kernels::device_properties();
  return std::any_of(properties.begin(), properties.end(), [](const auto& property) {
    return property.second.find("fakecuda") != std::string::npos;
  });
}

/// Measures a deck's step, and expects that its products take the fastest of the algorithms that the device's
/// library has. The fakes' first one is the slowest here; GPUs have what they have, and hosts none.
measure::Algorithms expect_fastest_algorithms(const Deck& deck) {
  const bool fake = on_fakes();
  ::setenv("FAKECUDA_FIRST_CHOICE", "0.02", 1);
  runtime::Session session(deck, world());
  const measure::Step step(deck, session);
  ::unsetenv("FAKECUDA_FIRST_CHOICE");
  const measure::Algorithms& found = step.algorithms();
  std::map<std::string, std::string> chosen;
  for (const auto& [product, algorithm] : found.chosen) chosen.emplace(product, algorithm);
  EXPECT_TRUE(!device_is_host() || chosen.empty());
  EXPECT_EQ(session.matmuls().refused(), 0);
  std::string all;
  std::size_t taken = 0;
  const auto look_at = [&](const auto& product) {
    const std::string name = name_of(product.spec());
    const std::vector<std::string> offered = product.algorithms(8);
    EXPECT_TRUE(!fake || offered.size() == 3) << name;
    all += name + ' ' + product.algorithm() + '\n';
    if (const auto other = chosen.find(name); other != chosen.end()) {
      EXPECT_EQ(product.algorithm(), other->second) << name;
      ++taken;
    } else if (!offered.empty()) {
      EXPECT_FALSE(fake && offered.size() > 1) << name;
      EXPECT_EQ(product.algorithm(), offered[0]) << name;
    }
  };
  for (const kernels::Matmul* product : session.matmuls().products()) look_at(*product);
  const std::vector<kernels::Float8Matmul*> in_float8 = session.matmuls().float8_products();
  EXPECT_EQ(in_float8.empty(), deck.precision.float8.empty());
  for (const kernels::Float8Matmul* product : in_float8) look_at(*product);
  EXPECT_EQ(taken, chosen.size());
  EXPECT_TRUE(!fake || !chosen.empty());
  EXPECT_TRUE(!fake || found.chosen_s < found.first_s / 2) << found.chosen_s << " of " << found.first_s;
  expect_same(hash_text(all));
  machine::Profile profile = default_profile(machine::DefaultProfile::host);
  profile.algorithms = found.chosen;
  EXPECT_EQ(machine::parse_profile(print_profile(profile), "m.toml").algorithms, found.chosen);
  return found;
}

TEST(MeasureStep, ItsProductsTakeTheirFastestAlgorithms) {
  expect_fastest_algorithms(small_deck());
}

/// Products in Float8 are measured beside those in bf16 of the other layer, which have the same shapes.
TEST(MeasureStep, ItsProductsInFloat8TakeTheirFastestAlgorithms) {
  const std::vector<std::string> rowwise{"precision.params=bf16",
                                         "precision.float8=[\"layers.1.attn\", \"layers.1.ffn\"]"};
  std::vector<std::string> tensorwise = rowwise;
  tensorwise.insert(tensorwise.end(),
                    {"precision.float8_scales=tensorwise", "precision.float8_gradients=e5m2"});
  const auto has = [](const measure::Algorithms& found, const std::string& words) {
    return std::any_of(found.chosen.begin(), found.chosen.end(),
                       [&](const auto& choice) { return choice.first.find(words) != std::string::npos; });
  };
  const measure::Algorithms by_row = expect_fastest_algorithms(small_deck(rowwise)),
                            by_tensor = expect_fastest_algorithms(small_deck(tensorwise));
  if (!on_fakes()) return;  // a library's first choice may be its fastest
  for (const measure::Algorithms* found : {&by_row, &by_tensor}) EXPECT_TRUE(has(*found, "bf16 to bf16"));
  EXPECT_TRUE(has(by_row, "e4m3 by e4m3 to bf16, rowwise"));
  EXPECT_TRUE(has(by_tensor, "e4m3 by e4m3 to bf16, tensorwise"));
  EXPECT_TRUE(has(by_tensor, "e5m2 by e4m3 to bf16, tensorwise"));
}

TEST(Noise, ScalesOfAllRowsAreOnePowerOfTwo) {
  runtime::Session session(Deck{}, world());
  const measure::Noise noise(session.space());
  constexpr std::size_t rows = 1000;
  const kernels::Buffer buffer = noise.scales(rows);
  std::vector<float> scales(rows);
  ASSERT_EQ(buffer.size(), rows * sizeof(float));
  kernels::copy_to_host(session.space(), scales.data(), buffer.data(), buffer.size());
  int exponent = 0;
  EXPECT_EQ(std::frexp(scales[0], &exponent), 0.5F);
  EXPECT_EQ(std::count(scales.begin(), scales.end(), scales[0]), static_cast<std::ptrdiff_t>(rows));
}

/// The kernels' times in a profile add up to the time of a step, because a step is its kernels one after
/// another. What else goes on on the machine may disturb either measurement, but not ten pairs of them.
TEST(MeasureStep, ItsKernelsAddUpToIt) {
  if (world().size() > static_cast<int>(std::thread::hardware_concurrency()))
    GTEST_SKIP() << "ranks that take turns on a core are measured badly";
  const Deck deck = small_deck({"model.dim=128", "model.ffn=512", "data.seq=128",
                                "data.global_batch=" + std::to_string(world().size())});
  runtime::Session session(deck, world());
  measure::Step step(deck, session);
  std::vector<double> ratios;
  for (bool fits = false; !fits && ratios.size() < 10;) {
    const double seconds = step.seconds(0.05);
    machine::Profile profile = default_profile(machine::DefaultProfile::host);
    profile.kernels = step.kernels(0.05);
    const machine::Prediction sum = predict(step.plan().graph, machine::CostModel(profile));
    EXPECT_EQ(sum.measured, sum.kernels);
    expect_same(std::bit_cast<std::uint64_t>(sum.compute_s));
    ratios.push_back(sum.compute_s / seconds);
    fits = ratios.back() > 0.7 && ratios.back() < 1.4;
  }
  EXPECT_TRUE(ratios.back() > 0.7 && ratios.back() < 1.4) << ::testing::PrintToString(ratios);
}

TEST(MeasureMachine, SumsOverReplicasAreMeasuredOnTheirChannel) {
  if (world().size() == 1) GTEST_SKIP() << "nothing travels";
  const Deck deck =
      small_deck({"parallel.mesh={ replica = " + std::to_string(world().size()) + ", data = 1 }"});
  runtime::Session session(deck, world());
  const measure::Measured m = measured_in_a_second(deck, session);
  const auto is_sum = [](const machine::CollectiveCurve& c) { return c.op == Op::all_reduce; };
  ASSERT_EQ(std::count_if(m.profile.collectives.begin(), m.profile.collectives.end(), is_sum), 1);
  const auto sum = std::find_if(m.profile.collectives.begin(), m.profile.collectives.end(), is_sum);
  EXPECT_EQ(sum->ranks, world().size());
  EXPECT_EQ(sum->nodes, 1);
  EXPECT_GE(sum->points.back().bytes, 1 << 19);
  ASSERT_TRUE(m.profile.sharing.replica.has_value());
  EXPECT_EQ(m.profile.sharing.replica->beside_lanes, 1) << "there is no other lane";
}

TEST(MeasureSharing, SumsOverReplicasRunBesideCompute) {
  if (world().size() == 1) GTEST_SKIP() << "nothing travels";
  const Deck deck =
      small_deck({"parallel.mesh={ replica = " + std::to_string(world().size()) + ", data = 1 }"});
  runtime::Session session(deck, world());
  measure::ReplicaSums sums(session, 1 << 20, ReduceOrder::canonical);
  sums.hold(sums.most());
  std::vector<std::uint64_t> sent;  // when compute begins, and when it ends
  const auto compute = [&] {
    sent.push_back(session.channel(Lane::replica)->bytes_sent());
    // The thread sleeps, because there may be more ranks than cores, and the sums' threads need their turns.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    sent.push_back(session.channel(Lane::replica)->bytes_sent());
  };
  const machine::ReplicaSharing found = measure_replica_sharing(sums, nullptr, world(), compute, 0.5);
  EXPECT_GT(found.beside_compute, 0);
  EXPECT_LE(found.beside_compute, 1);
  // Compute ran once to learn its time, and then five times or more by itself and with sums beside it.
  ASSERT_GE(sent.size(), 22U);
  std::size_t moved = 0;
  for (std::size_t i = 0; i < sent.size(); i += 2) moved += sent[i] != sent[i + 1] ? 1 : 0;
  EXPECT_GE(moved, 2U);
  EXPECT_LE(moved, sent.size() / 4 + 1);
}

/// On a fast link collectives grow until they are few enough, or until there is no memory for larger ones.
TEST(MeasureSharing, RowsBesideComputeAreLongEnoughUnlessTheyWouldFillAStream) {
  using measure::most_rounds;
  constexpr double mib = 1 << 20;
  int full = 0, grown = 0;
  for (const double rate : {0.1e9, 50e9, 300e9, 900e9})
    for (const double seconds : {0.15, 0.3, 1.0})
      for (const int lanes : {1, 2})
        for (const double most : {0.25 * mib, 4 * mib, 64 * mib, 1024 * mib}) {
          SCOPED_TRACE(::testing::Message()
                       << rate << " bytes/s, " << seconds << " s, " << lanes << " lanes, at most " << most);
          const auto [bytes, count] = measure::rounds_beside(seconds, rate, lanes, most);
          const double wanted = 2 * seconds * rate / lanes;
          EXPECT_LE(bytes, most);
          EXPECT_GE(count, 3);
          EXPECT_LE(count, most_rounds);
          EXPECT_LE((count - 3) * bytes, wanted) << "it is longer than it must be";
          if (bytes * count < wanted) {
            EXPECT_EQ(bytes, most) << "a larger collective would have made it long enough";
            EXPECT_EQ(count, most_rounds);
            ++full;
          }
          if (bytes > 16 * mib) {
            EXPECT_GE(count, most_rounds - 1) << "smaller collectives would have done";
            ++grown;
          }
        }
  EXPECT_GT(full, 10);
  EXPECT_GT(grown, 10);
  EXPECT_DOUBLE_EQ(measure::rounds_beside(0.15, 0.1e9, 2, 64 * mib).bytes, 2.5e6);
}

/// Where a lane may have no more collectives pending, they end before the compute does. Their speed is then
/// that of the time in which they were under way.
TEST(MeasureSharing, SumsThatEndBeforeComputeHaveTheSpeedOfTheirOwnTime) {
  if (world().size() == 1) GTEST_SKIP() << "nothing travels";
  const Deck deck =
      small_deck({"parallel.mesh={ replica = " + std::to_string(world().size()) + ", data = 1 }"});
  runtime::Session session(deck, world());
  measure::ReplicaSums sums(session, 1 << 10, ReduceOrder::native);
  sums.hold(sums.most());
  int runs = 0;
  const auto compute = [&runs] {
    ++runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
  };
  const comm::Channel& channel = *session.channel(Lane::replica);
  const std::uint64_t before = channel.collectives();
  const machine::ReplicaSharing found = measure_replica_sharing(sums, nullptr, world(), compute, 0.1);
  EXPECT_EQ(runs,
            11);  // compute ran once to learn its time, and five times by itself and with sums beside it
  // A run of sums by themselves has a quarter of the rounds and two; those that learnt the rate are few.
  constexpr std::uint64_t each = measure::most_rounds + measure::most_rounds / 4 + 2;
  EXPECT_LE(channel.collectives() - before, 5 * each + 100);
  if (device_is_host()) {  // a fake device does nothing at once
    EXPECT_GT(found.beside_compute, 0.2);
  }
}

TEST(MeasureMachine, SumsOverReplicasShareWithGathers) {
  if (world().size() != 4) GTEST_SKIP() << "two replicas of two ranks";
  const Deck deck = small_deck({"parallel.mesh={ replica = 2, data = 2 }"});
  runtime::Session session(deck, world());
  const measure::Measured m = measured_in_a_second(deck, session);
  ASSERT_TRUE(m.profile.sharing.replica.has_value());
  EXPECT_NE(summary(m).find("sums over replicas"), std::string::npos);
  std::vector<int> ranks;
  for (const machine::CollectiveCurve& c : m.profile.collectives) ranks.push_back(c.ranks);
  EXPECT_EQ(ranks, (std::vector<int>{2, 2, 2, 2, 2}));
}

/// The other ranks' hosts may have another file under that name, or none.
TEST(MachineProfile, IsRankZeros) {
  const TemporaryDirectory directory;
  machine::Profile p = default_profile(machine::DefaultProfile::h100);
  p.name = "a machine elsewhere";
  Deck deck;
  deck.schedule.profile = directory / "machine.toml";
  if (world().rank() == 0) std::ofstream(deck.schedule.profile) << print_profile(p);
  EXPECT_EQ(runtime::machine_profile(deck, world()).name, p.name);
  expect_same(hash_of(runtime::machine_profile(deck, world())));
}

TEST(MachineProfile, ItsMistakesAreEveryRanks) {
  const TemporaryDirectory directory;
  Deck deck;
  deck.schedule.profile = directory / "machine.toml";
  if (world().rank() == 0) std::ofstream(deck.schedule.profile) << "name = 1\n";
  EXPECT_THROW(runtime::machine_profile(deck, world()), Error);
}

}  // namespace
}  // namespace weft::test
