// Tests swiglu, add, cast, and the exponential function that they stand on.
#include <cmath>
#include <limits>

#include "kernels/elementwise.hpp"
#include "kernels/math.hpp"
#include "kernels/swiglu.hpp"
#include "rig.hpp"
#include "support/worst.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

constexpr std::int64_t sizes[] = {1, 3, 17, 255, 257, 1000, 4097, 10000};

TEST(Pointwise, ExponentialIsWithinTwoUlp) {
  double worst = 0;
  for (double x = -87.3; x < 88.3; x += 0.00137) {
    const auto single = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(single));
    worst = test::worse(worst, std::fabs(static_cast<double>(exp_f32(single)) - exact) / exact);
  }
  EXPECT_LT(worst, 2.4e-7);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_f32(-infinity), 0.0f);
  EXPECT_EQ(exp_f32(-1e30f), 0.0f);
  EXPECT_EQ(exp_f32(infinity), infinity);
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(exp_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Pointwise, ReciprocalIsAccurate) {
  double worst = 0;
  for (double y = 1; y <= 4e37; y *= 1.000123) {
    const auto single = static_cast<float>(y);
    worst = test::worse(
        worst, std::fabs(static_cast<double>(reciprocal_f32(single)) * static_cast<double>(single) - 1));
  }
  EXPECT_LT(worst, 2.4e-7);
  EXPECT_EQ(reciprocal_f32(1.0f), 1.0f);
  EXPECT_TRUE(std::isnan(reciprocal_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Pointwise, SwigluForwardAndBackward) {
  for (DType t : float_types)
    for (std::int64_t n : sizes) {
      SCOPED_TRACE(testing::Message() << name_of(t) << " n " << n);
      const SwigluShape shape{1, n, n};
      const Array gate = random(n, t, 1, 3.0), up = random(n, t, 2), dout = random(n, t, 3);
      const Device gate_device(gate, t), up_device(up, t), dout_device(dout, t), out(n, t);
      swiglu(space(), shape, t, gate_device.data(), up_device.data(), out.data());
      EXPECT_TRUE(close(out.read(), reference::swiglu(gate, up), tolerance(t)));
      swiglu_grad(space(), shape, t, gate_device.data(), up_device.data(), dout_device.data(),
                  gate_device.data(),
                  up_device.data());  // this is in place
      const auto expected = reference::swiglu_grad(gate, up, dout);
      EXPECT_TRUE(close(gate_device.read(), expected.dgate, tolerance(t)));
      EXPECT_TRUE(close(up_device.read(), expected.dup, tolerance(t)));
    }
}

/// Here gate and up have their rows in turn, as one matmul makes them.
TEST(Pointwise, SwigluOfRowsSideBySide) {
  for (DType t : float_types)
    for (std::int64_t dim : odd_sizes) {
      const std::int64_t rows = 5, n = rows * dim;
      const Array gate = random(n, t, 1, 3.0), up = random(n, t, 2), dout = random(n, t, 3);
      const auto beside = [&](const Array& left, const Array& right) {
        Array both;
        for (std::int64_t r = 0; r < rows; ++r)
          for (const Array* from : {&left, &right})
            both.insert(both.end(), from->begin() + r * dim, from->begin() + (r + 1) * dim);
        return both;
      };
      const SwigluShape shape{rows, dim, 2 * dim};
      const Device both(beside(gate, up), t), out(n, t);
      void* const up_device = both.as<std::byte>() + static_cast<std::size_t>(dim) * size_of(t);
      swiglu(space(), shape, t, both.data(), up_device, out.data());
      EXPECT_TRUE(close(out.read(), reference::swiglu(gate, up), tolerance(t)));
      swiglu_grad(space(), shape, t, both.data(), up_device, Device(dout, t).data(), both.data(), up_device);
      const auto expected = reference::swiglu_grad(gate, up, dout);
      EXPECT_TRUE(close(both.read(), beside(expected.dgate, expected.dup), tolerance(t)));
    }
}

TEST(Pointwise, SwigluAtTheEnds) {
  const Array ends{-1000, -90, -86, 90, 1000, 3e38, std::numeric_limits<double>::quiet_NaN()};
  const SwigluShape shape{1, 7, 7};
  for (DType t : float_types) {
    SCOPED_TRACE(name_of(t));
    const Device gate(ends, t), ones(Array(7, 1.0), t), out(7, t), dup(7, t), dgate(7, t);
    swiglu(space(), shape, t, gate.data(), ones.data(), out.data());
    swiglu_grad(space(), shape, t, gate.data(), ones.data(), ones.data(), dgate.data(), dup.data());
    const Array read = out.read(), slope = dgate.read();
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(read[i], 0, 1e-33);
    for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(read[i], gate.read()[i]);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(slope[i], 0, 1e-33);
    for (std::size_t i = 3; i < 5; ++i) EXPECT_NEAR(slope[i], 1, 1e-6);
    EXPECT_TRUE(std::isnan(read[6]) && std::isnan(slope[6]));
  }
}

TEST(Pointwise, AddInPlace) {
  for (DType t : float_types)
    for (std::int64_t n : sizes) {
      const Array a = random(n, t, 1), b = random(n, t, 2);
      const Device inout(a, t);
      add(space(), n, t, inout.data(), Device(b, t).data(), inout.data());
      Array expected(a);
      for (std::size_t i = 0; i < a.size(); ++i) expected[i] += b[i];
      EXPECT_TRUE(close(inout.read(), expected, tolerance(t))) << name_of(t) << " n " << n;
    }
}

TEST(Pointwise, CastRoundsToNearestEven) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Array values = {0, 1, 1 + 1.0 / 256, 1 + 3.0 / 256, -1 - 1.0 / 256, 3.4e38, -infinity};
  const Array expected = {0, 1, 1, 1 + 4.0 / 256, -1, infinity, -infinity};
  const auto n = static_cast<std::int64_t>(values.size());
  const Device narrow(n, DType::bf16), wide(n, DType::f32);
  cast(space(), n, DType::f32, Device(values, DType::f32).data(), DType::bf16, narrow.data());
  cast(space(), n, DType::bf16, narrow.data(), DType::f32, wide.data());
  EXPECT_EQ(narrow.read(), expected);
  EXPECT_EQ(wide.read(), expected);
}

}  // namespace
}  // namespace weft::kernels
