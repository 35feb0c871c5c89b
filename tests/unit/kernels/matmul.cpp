#include "kernels/matmul.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "base/device.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

struct Operands {
  std::int64_t a, b, c;
};

Operands elements(const MatmulSpec& s) {
  const std::int64_t x = s.rows * s.in, w = s.out * s.in, y = s.rows * s.out;
  if (s.form == MatmulForm::forward) return {x, w, y};
  if (s.form == MatmulForm::dgrad) return {y, w, x};
  return {y, x, w};
}

/// Checks a matmul in both ways of f32 products.
void check(MatmulSpec spec) {
  if (spec.type == DType::f32 && spec.f32_products == F32Products::split) {
    spec.f32_products = F32Products::plain;
    check(spec);
    spec.f32_products = F32Products::split;
  }
  SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(spec.form) << ' ' << name_of(spec.type)
                                  << " to " << name_of(spec.result) << " rows " << spec.rows << " in "
                                  << spec.in << " out " << spec.out << " way "
                                  << static_cast<int>(spec.f32_products) << " add " << spec.add);
  const Operands n = elements(spec);
  const Array a = random(n.a, spec.type, 1), b = random(n.b, spec.type, 2);
  const Array before = random(n.c, spec.result, 3);
  Array expected = reference::matmul(spec, a, b);
  if (spec.add)
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  const Device a_device(a, spec.type), b_device(b, spec.type);
  // NaNs, because beta is 0.
  const Device c = spec.add ? Device(before, spec.result) : Device(n.c, spec.result);
  Matmul matmul(spec);
  const Buffer work = scratch(matmul.scratch_bytes());
  matmul.run(space(), a_device.data(), b_device.data(), c.data(), work.data());
  // Some of cuBLASLt's kernels round a product to bf16 before they add it.
  const double roundings = spec.add && spec.result == DType::bf16 && !device_is_host() ? 2 : 1;
  EXPECT_TRUE(close(c.read(), expected, roundings * tolerance(spec.result, 1e-5)));
}

constexpr MatmulForm forms[] = {MatmulForm::forward, MatmulForm::dgrad, MatmulForm::wgrad};

TEST(Matmul, EveryFormAndTypeAtOddSizes) {
  for (MatmulForm form : forms)
    for (std::int64_t rows : {1, 3, 17, 255})
      for (std::int64_t in : {1, 17, 64})
        for (std::int64_t out : {1, 3, 96}) {
          check({form, rows, in, out, DType::f32, DType::f32});
          check({form, rows, in, out, DType::bf16, DType::bf16});
          check({form, rows, in, out, DType::bf16, DType::f32});
          for (DType t : float_types) check({form, rows, in, out, t, t, true});
        }
}

TEST(Matmul, LargerThanABlock) {
  for (MatmulForm form : forms)
    for (DType t : float_types)
      for (bool add : {false, true}) check({form, 257, 300, 129, t, t, add});
}

TEST(Matmul, LongSumsAndManyRowsAndColumns) {
  for (const bool add : {false, true}) {
    check({MatmulForm::forward, 40, 2100, 70, DType::f32, DType::f32, add});
    check({MatmulForm::dgrad, 40, 70, 2100, DType::f32, DType::f32, add});
    check({MatmulForm::wgrad, 2100, 70, 40, DType::f32, DType::f32, add});
    check({MatmulForm::wgrad, 2100, 40, 70, DType::f32, DType::f32, add});
    check({MatmulForm::forward, 2100, 64, 530, DType::f32, DType::f32, add});
    const DType t = DType::bf16;
    check({MatmulForm::forward, 40, 2100, 70, t, t, add});
    check({MatmulForm::dgrad, 40, 70, 2100, t, t, add});
    check({MatmulForm::wgrad, 2100, 70, 40, t, DType::f32, add});
    check({MatmulForm::wgrad, 2100, 40, 70, t, t, add});
    check({MatmulForm::forward, 70, 1000, 300, t, t, add});
    // These have rows that are read as they stand, in several slabs and parts of k.
    check({MatmulForm::forward, 40, 1056, 70, t, t, add});
    check({MatmulForm::forward, 70, 2080, 300, t, t, add});
    check({MatmulForm::dgrad, 47, 70, 1056, t, t, add});
    check({MatmulForm::forward, 2100, 64, 33, t, DType::f32, add});
  }
}

TEST(Matmul, FloatIsNotRoundedToBfloat) {
  // 1 + 2^-12 is no bf16 and no TF32 (10 bits), so its square would lose the cross term.
  const double x = 1 + 1.0 / 4096;
  for (const F32Products way : {F32Products::split, F32Products::plain})
    for (const std::int64_t n : {32, 512}) {  // libraries leave small products alone
      const Device a(Array(n * n, x), DType::f32), b(Array(n * n, x), DType::f32), c(n * n, DType::f32);
      Matmul matmul({MatmulForm::forward, n, n, n, DType::f32, DType::f32, false, way});
      matmul.run(space(), a.data(), b.data(), c.data(), scratch(matmul.scratch_bytes()).data());
      EXPECT_TRUE(close(c.read(), Array(n * n, n * x * x), 2e-6));
    }
}

/// Normal numbers, each multiplied by a power of two from 2^-spread to 2^spread.
Array spread_out(std::int64_t n, int spread, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> power(-spread, spread);
  Array values(static_cast<std::size_t>(n));
  for (double& x : values) x = std::ldexp(normal(engine), power(engine));
  return values;
}

/// The root mean square and largest errors of c = A B, beside the sums of |a b|.
struct Errors {
  double mean = 0, largest = 0;
};
Errors errors(const MatmulSpec& spec, const Array& a, const Array& b) {
  const auto magnitudes = [](Array values) {
    for (double& x : values) x = std::abs(x);
    return values;
  };
  const Array exact = reference::matmul(spec, a, b);
  const Array size = reference::matmul(spec, magnitudes(a), magnitudes(b));
  const Device a_device(a, DType::f32), b_device(b, DType::f32), c(elements(spec).c, DType::f32);
  Matmul matmul(spec);
  matmul.run(space(), a_device.data(), b_device.data(), c.data(), scratch(matmul.scratch_bytes()).data());
  const Array result = c.read();
  Errors e;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double error = std::abs(result[i] - exact[i]) / size[i];
    e.mean += error * error / static_cast<double>(result.size());
    e.largest = std::max(e.largest, error);
  }
  e.mean = std::sqrt(e.mean);
  return e;
}

// `split` is the default because of this: its result is no farther from the exact product than that of fp32
// arithmetic. Where there is no AMX both are the same.
TEST(Matmul, SplitIsAsAccurateAsPlain) {
  struct Sizes {
    std::int64_t rows, in, out;
  };
  for (const Sizes& s : {Sizes{64, 64, 64}, Sizes{96, 512, 80}, Sizes{48, 3000, 64}, Sizes{2100, 70, 40}})
    for (const MatmulForm form : forms)
      for (const int spread : {0, 4, 20}) {
        MatmulSpec spec{form, s.rows, s.in, s.out, DType::f32, DType::f32};
        const Operands n = elements(spec);
        const Array a = spread_out(n.a, spread, 1), b = spread_out(n.b, spread, 2);
        const Errors split = errors(spec, a, b);
        spec.f32_products = F32Products::plain;
        const Errors plain = errors(spec, a, b);
        SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(form) << " rows " << s.rows << " in "
                                        << s.in << " out " << s.out << " spread " << spread);
        EXPECT_LE(split.mean, 1.1 * plain.mean);
        EXPECT_LE(split.largest, 1.2 * plain.largest);
      }
}

// Values go down to where pieces, or their products, begin to be denormal, which AMX takes as zero.
TEST(Matmul, SplitKeepsTheBitsOfSmallValues) {
  constexpr std::int64_t n = 64;
  for (const auto& [left, right] : {std::pair{-100, 40}, std::pair{40, -100}, std::pair{-50, -50}}) {
    Array a = spread_out(n * n, 0, 1), b = spread_out(n * n, 0, 2);
    for (double& x : a) x = std::ldexp(x, left);
    for (double& x : b) x = std::ldexp(x, right);
    const Errors e = errors({MatmulForm::forward, n, n, n, DType::f32, DType::f32}, a, b);
    EXPECT_LT(e.mean, 6e-8) << left << ' ' << right;
    EXPECT_LT(e.largest, 4e-7) << left << ' ' << right;
  }
}

TEST(Matmul, WhatIsNotFiniteIsNotFiniteInAllThatItMeets) {
  constexpr std::int64_t n = 40;
  for (const F32Products f32 : {F32Products::split, F32Products::plain})
    for (const double bad :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      Array a = random(n * n, DType::f32, 1);
      a[3 * n + 5] = bad;
      const Device a_device(a, DType::f32), b(random(n * n, DType::f32, 2), DType::f32), c(n * n, DType::f32);
      Matmul matmul({MatmulForm::forward, n, n, n, DType::f32, DType::f32, false, f32});
      matmul.run(space(), a_device.data(), b.data(), c.data(), scratch(matmul.scratch_bytes()).data());
      const Array result = c.read();
      for (std::int64_t i = 0; i < n * n; ++i)
        EXPECT_EQ(std::isfinite(result[static_cast<std::size_t>(i)]), i / n != 3) << i;
    }
}

TEST(Matmul, OperandsOfAnyAlignment) {
  const auto behind_one = [](Array values) {
    values.insert(values.begin(), 1e30);  // if it is read by mistake, it shows
    return values;
  };
  for (const MatmulForm form : forms)
    for (const DType t : float_types) {
      const MatmulSpec spec{form, 17, 40, 24, t, t};
      const Operands n = elements(spec);
      const Array a = random(n.a, t, 1), b = random(n.b, t, 2);
      const Device a_device(behind_one(a), t), b_device(behind_one(b), t), c(n.c + 1, t);
      const auto second = [t](const Device& device) { return device.as<std::byte>() + size_of(t); };
      Matmul matmul(spec);
      const Buffer work = scratch(matmul.scratch_bytes());
      matmul.run(space(), second(a_device), second(b_device), second(c), work.data());
      Array result = c.read();
      result.erase(result.begin());
      EXPECT_TRUE(close(result, reference::matmul(spec, a, b), tolerance(t, 1e-5)));
    }
}

/// The result's bytes when the operands begin this many elements behind the beginnings of their arrays.
std::vector<std::byte> bits_at(const MatmulSpec& spec, const Operands& behind) {
  const Operands n = elements(spec);
  const auto shifted = [](const Array& values, std::int64_t by, DType t) {
    Array moved(static_cast<std::size_t>(by), 0.0);
    moved.insert(moved.end(), values.begin(), values.end());
    return Device(moved, t);
  };
  const Device a = shifted(random(n.a, spec.type, 1), behind.a, spec.type);
  const Device b = shifted(random(n.b, spec.type, 2), behind.b, spec.type);
  const Device c = shifted(random(n.c, spec.result, 3), behind.c, spec.result);
  const auto from = [](const Device& device, std::int64_t by, DType t) {
    return device.as<std::byte>() + static_cast<std::size_t>(by) * size_of(t);
  };
  Matmul matmul(spec);
  matmul.run(space(), from(a, behind.a, spec.type), from(b, behind.b, spec.type),
             from(c, behind.c, spec.result), scratch(matmul.scratch_bytes()).data());
  std::vector<std::byte> bits = c.bytes();
  bits.erase(bits.begin(), bits.begin() + behind.c * static_cast<std::int64_t>(size_of(spec.result)));
  return bits;
}

TEST(Matmul, BitsDoNotDependOnTheAlignment) {
  if (!device_is_host()) GTEST_SKIP() << "cuBLASLt has another algorithm for another alignment";
  struct Sizes {
    std::int64_t rows, in, out;
  };
  constexpr Sizes sizes[] = {{17, 40, 24}, {257, 300, 129}, {320, 256, 192}};
  constexpr Operands places[] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {3, 5, 7}, {4, 8, 12}};
  for (const MatmulForm form : forms)
    for (const DType t : float_types)
      for (const bool add : {false, true})
        for (const Sizes& s : sizes) {
          for (const F32Products way : {F32Products::split, F32Products::plain}) {
            const MatmulSpec spec{form, s.rows, s.in, s.out, t, t, add, way};
            const std::vector<std::byte> aligned = bits_at(spec, {0, 0, 0});
            for (const Operands& behind : places)
              EXPECT_EQ(bits_at(spec, behind), aligned)
                  << "form " << static_cast<int>(form) << ' ' << name_of(t) << " rows " << s.rows << " add "
                  << add << " behind " << behind.a << ' ' << behind.b << ' ' << behind.c;
          }
        }
}

TEST(Matmul, RunsAgainWithOtherOperands) {
  Matmul first({MatmulForm::forward, 5, 7, 3, DType::f32, DType::f32});
  Matmul matmul = std::move(first);
  const Buffer work = scratch(matmul.scratch_bytes());
  for (int seed : {1, 2, 3}) {
    const Array a = random(35, DType::f32, seed), b = random(21, DType::f32, seed + 10);
    const Device a_device(a, DType::f32), b_device(b, DType::f32), c(15, DType::f32);
    matmul.run(space(), a_device.data(), b_device.data(), c.data(), work.data());
    EXPECT_TRUE(close(c.read(),
                      reference::matmul({MatmulForm::forward, 5, 7, 3, DType::f32, DType::f32}, a, b), 1e-5));
  }
}

/// An algorithm's text is understood again, by another object of the same product, and by no other library.
TEST(Matmul, TakesTheAlgorithmsThatItOffers) {
  const MatmulSpec spec{MatmulForm::dgrad, 48, 64, 32, DType::bf16, DType::bf16, true};
  EXPECT_EQ(name_of(spec), "dgrad, 48 rows, 64 in, 32 out, bf16 to bf16, added");
  Matmul matmul(spec);
  const std::vector<std::string> offered = matmul.algorithms(8);
  if (device_is_host()) {
    EXPECT_TRUE(offered.empty());
    EXPECT_TRUE(matmul.take({{name_of(spec), "of a GPU"}})) << "there is nothing to take";
    return;
  }
  ASSERT_FALSE(offered.empty());
  EXPECT_EQ(matmul.algorithm(), offered[0]);
  const Array a = random(48 * 32, DType::bf16, 1), b = random(32 * 64, DType::bf16, 2),
              before = random(48 * 64, DType::bf16, 3);
  Array expected = reference::matmul(spec, a, b);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  const Device a_device(a, DType::bf16), b_device(b, DType::bf16);
  for (const std::string& text : offered) {
    Matmul other(spec);
    EXPECT_TRUE(other.take({{name_of(spec), text}, {"another product", "cuBLASLt 1 2 3"}}));
    EXPECT_EQ(other.algorithm(), text);
    const Device c(before, DType::bf16);
    const Buffer work = scratch(other.scratch_bytes());
    other.run(space(), a_device.data(), b_device.data(), c.data(), work.data());
    EXPECT_TRUE(close(c.read(), expected, 2 * tolerance(DType::bf16, 1e-5))) << text;
  }
  for (const std::string& unknown : {std::string("cuBLASLt 1 2 3 4 5 6 7 8 9"), std::string("cuBLASLt"),
                                     std::string(), offered[0].substr(0, offered[0].rfind(' '))}) {
    EXPECT_FALSE(matmul.take({{name_of(spec), unknown}})) << unknown;
    EXPECT_EQ(matmul.algorithm(), offered[0]);
  }
}

TEST(Matmul, RefusesWhatItCannotDo) {
  EXPECT_THROW(Matmul({MatmulForm::forward, 1, 1, 1, DType::f64, DType::f64}), std::logic_error);
  EXPECT_THROW(Matmul({MatmulForm::forward, 1, 1, 1, DType::f32, DType::bf16}), std::logic_error);
  EXPECT_THROW(Matmul({MatmulForm::forward, 0, 1, 1, DType::f32, DType::f32}), std::logic_error);
}

}  // namespace
}  // namespace weft::kernels
