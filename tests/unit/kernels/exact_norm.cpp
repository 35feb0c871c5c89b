// Tests the gradient norm: sum_squares, reduce_totals, clip_scale.
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/update.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

using Limbs = std::vector<std::int64_t>;

/// An exact register in device memory, which begins at zero.
struct Register {
  Buffer buffer{exact_limbs * sizeof(std::int64_t), "test"};
  std::int64_t* data() const { return reinterpret_cast<std::int64_t*>(buffer.data()); }
  void write(const Limbs& limbs) const {
    copy_to_device(space(), buffer.data(), limbs.data(), buffer.size());
  }
  Limbs read() const {
    Limbs limbs(exact_limbs);
    copy_to_host(space(), limbs.data(), buffer.data(), buffer.size());
    return limbs;
  }
};

double value(const Limbs& limbs) {
  return exact_value(limbs.data());
}

/// The square root of the register's value, as the kernel reads it.
double root(const Register& limbs) {
  const Device out(4, DType::f32);
  clip_scale(space(), limbs.data(), Device({1, 1}, DType::f64).as<double>(), 0.0f, out.as<float>());
  return out.read()[0];
}

/// Host and kernel read the register by one function. The sums here are known to the last bit.
TEST(ExactNorm, OfKnownSums) {
  using Double = std::numeric_limits<double>;
  const double most = Double::max(), least = Double::denorm_min();
  const std::vector<std::pair<Array, double>> sums{{{}, 0},
                                                   {{1, -1}, 0},
                                                   {{least}, least},
                                                   {{least, 0x1p-1022}, least + 0x1p-1022},
                                                   {{1, least}, 1},
                                                   {{1, -least}, 1},  // all digits below that of 1 are full
                                                   {{0x1p53, 1, 1}, 0x1p53 + 2},
                                                   {{1e300, 3, -1e300}, 3},
                                                   {{-1e300, 0x1p-40, 9, 1e300}, 9 + 0x1p-40},
                                                   {{1e60, 0x1p-149}, 1e60},
                                                   {{most}, most},
                                                   {{most, -most, 5}, 5},
                                                   {{most, most}, Double::infinity()}};
  for (const auto& [terms, sum] : sums) {
    Limbs limbs(exact_limbs, 0);
    for (const double x : terms)
      exact_accumulate(x, [&](int limb, std::int64_t add) { limbs[static_cast<std::size_t>(limb)] += add; });
    EXPECT_EQ(value(limbs), sum) << testing::PrintToString(terms);
    const Register device;
    device.write(limbs);
    EXPECT_EQ(root(device), static_cast<double>(static_cast<float>(std::sqrt(sum))))
        << testing::PrintToString(terms);
  }
}

TEST(ExactNorm, SumOfSquaresMatches) {
  for (std::int64_t n : {1, 3, 15, 16, 17, 255, 256, 257, 1000, 65536, 65537, 200001}) {
    const Array g = random(n, DType::f32, 1);
    const Register limbs;
    sum_squares(space(), n, Device(g, DType::f32).as<float>(), limbs.data());
    double expected = 0;
    for (double x : g) expected += x * x;
    EXPECT_NEAR(value(limbs.read()) / expected, 1.0, 1e-13) << n;
  }
}

TEST(ExactNorm, DoesNotDependOnTheCutOrTheOrder) {
  const std::int64_t n = 256 * 100 + 77;
  Array g = random(n, DType::f32, 1);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] *= std::pow(10.0, static_cast<int>(i / 256 % 30) - 15);
  const Device device(g, DType::f32);
  const Register whole;
  sum_squares(space(), n, device.as<float>(), whole.data());
  for (std::int64_t chunks : {1, 3, 7, 64}) {
    const Register pieces;
    for (std::int64_t begin = (n / (256 * chunks)) * 256 * chunks; begin >= 0;
         begin -= 256 * chunks)  // the last chunks come first
      sum_squares(space(), std::min(256 * chunks, n - begin), device.as<float>() + begin, pieces.data());
    EXPECT_EQ(pieces.read(), whole.read()) << chunks;
  }
}

TEST(ExactNorm, RegistersOfRanksAddAsIntegers) {
  const std::int64_t n = 256 * 64;
  const Device g(random(n, DType::f32, 1), DType::f32);
  const Register whole;
  sum_squares(space(), n, g.as<float>(), whole.data());
  for (int ranks : {2, 4, 64}) {
    Limbs sum(exact_limbs, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const Register own;
      sum_squares(space(), n / ranks, g.as<float>() + rank * (n / ranks), own.data());
      const Limbs limbs = own.read();
      for (std::size_t i = 0; i < limbs.size(); ++i) sum[i] += limbs[i];
    }
    EXPECT_EQ(value(sum), value(whole.read())) << ranks;
  }
}

TEST(ExactNorm, TotalsAddInTheOrderOfMicrobatches) {
  // The layout is [ranks][rounds][2]. In the order m = round * ranks + rank, the big terms meet before the
  // small one.
  const Array in = {1e17, 1, 1, 2, -1e17, 3, 2, 4};
  const Device out(2, DType::f64);
  reduce_totals(space(), 2, 2, Device(in, DType::f64).as<double>(), out.as<double>());
  EXPECT_EQ(out.read(), (Array{3, 10}));
}

Array clip(const Array& g, const Array& totals, float max_norm) {
  const Register limbs;
  sum_squares(space(), static_cast<std::int64_t>(g.size()), Device(g, DType::f32).as<float>(), limbs.data());
  const Device out(4, DType::f32);
  clip_scale(space(), limbs.data(), Device(totals, DType::f64).as<double>(), max_norm, out.as<float>());
  return out.read();
}

TEST(ClipScale, ClipsTheMeanGradient) {
  EXPECT_TRUE(close(clip({30, 40}, {20, 10}, 1.0f), {5, 1.0 / (5 + 1e-6) / 10, 2, 10}, 1e-7));
  EXPECT_TRUE(close(clip({30, 40}, {20, 10}, 7.0f), {5, 0.1, 2, 10}, 1e-7));
  EXPECT_TRUE(close(clip({30, 40}, {20, 10}, 0.0f), {5, 0.1, 2, 10}, 1e-7));
  EXPECT_EQ(clip({0, 0}, {4, 2}, 1.0f), (Array{0, 0.5, 2, 2}));
}

TEST(ClipScale, TheDeviceReadsTheRegisterAsTheHostDoes) {
  for (double scale : {1e-38, 1e-19, 1.0, 1e15, 1e37}) {
    const Array g = random(1000, DType::f32, 3, scale);
    const Register limbs;
    sum_squares(space(), 1000, Device(g, DType::f32).as<float>(), limbs.data());
    EXPECT_EQ(root(limbs), static_cast<double>(static_cast<float>(std::sqrt(value(limbs.read()))))) << scale;
  }
}

/// The factor by which adamw knows that it must leave the state alone.
TEST(ClipScale, IsNotANumberWhenNormOrLossIsNotFinite) {
  for (const float max_norm : {0.0f, 1.0f}) {
    for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      const Array out = clip({1, bad, 2}, {1, 1}, max_norm);
      EXPECT_TRUE(std::isnan(out[0]));
      EXPECT_TRUE(std::isnan(out[1]));
      const Array of_loss = clip({30, 40}, {bad, 10}, max_norm);
      EXPECT_EQ(of_loss[0], 5);
      EXPECT_TRUE(std::isnan(of_loss[1]));
    }
    // The norm is told in fp32, for which it is too large.
    const Array too_large = clip({3e38, 3e38}, {1, 1}, max_norm);
    EXPECT_TRUE(std::isinf(too_large[0]));
    EXPECT_TRUE(std::isnan(too_large[1]));
    const Array empty = clip({30, 40}, {0, 0}, max_norm);
    EXPECT_TRUE(std::isnan(empty[1]));
    EXPECT_EQ(empty[0] + empty[2] + empty[3], 0);
  }
}

}  // namespace
}  // namespace weft::kernels
