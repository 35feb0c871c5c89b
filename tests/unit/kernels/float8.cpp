#include "kernels/float8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/device.hpp"
#include "kernels/float8_matmul.hpp"
#include "kernels/gpu_scratch.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

/// Widths of rows. A device takes 16 elements at a time where these divide a width.
constexpr std::int64_t widths[] = {1, 3, 17, 255, 257, 1000, 1008};

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// The value of the bits by the formats' definition: sign, exponent, mantissa.
double value_of(int bits, int mantissa, int bias) {
  const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - mantissa)
                                         : std::ldexp((1 << mantissa) + fraction, exponent - bias - mantissa);
  return bits & 0x80 ? -magnitude : magnitude;
}

/// Positive finite values, by their bits.
std::vector<double> finite_values(DType format) {
  std::vector<double> list;
  const bool wide = format == DType::e5m2;
  for (int bits = 0; bits < (wide ? 0x7c : 0x7f); ++bits)
    list.push_back(value_of(bits, wide ? 2 : 3, wide ? 15 : 7));
  return list;
}

/// The bits nearest to a magnitude; of two, the even ones. Found by looking at all.
int nearest_bits(const std::vector<double>& values, double magnitude) {
  int best = 0;
  for (int bits = 1; bits < static_cast<int>(values.size()); ++bits) {
    const double own = std::abs(values[static_cast<std::size_t>(bits)] - magnitude),
                 least = std::abs(values[static_cast<std::size_t>(best)] - magnitude);
    if (own < least || (own == least && bits % 2 == 0)) best = bits;
  }
  return best;
}

template <class T>
void expect_nearest(DType format) {
  const std::vector<double> values = finite_values(format);
  EXPECT_EQ(values.back(), largest<T>);
  for (std::size_t bits = 0; bits < values.size(); ++bits) {
    EXPECT_EQ(to_float(T{static_cast<std::uint8_t>(bits)}), values[bits]);
    EXPECT_EQ(to_float(T{static_cast<std::uint8_t>(bits | 0x80)}), -values[bits]);
  }
  std::vector<double> tried{0, 1e-30, 1e30, infinity, largest<T>};
  for (std::size_t i = 1; i < values.size(); ++i)
    for (const double between : {0.25, 0.5, 0.75}) {
      const double x = values[i - 1] + between * (values[i] - values[i - 1]);
      tried.insert(tried.end(), {x, std::nextafterf(static_cast<float>(x), infinity),
                                 std::nextafterf(static_cast<float>(x), 0)});
    }
  for (const double x : tried) {
    const auto f = static_cast<float>(x);
    const double finite = std::min<double>(f, largest<T>);
    EXPECT_EQ(to_float8<T>(f).bits, nearest_bits(values, finite)) << x;
    EXPECT_EQ(to_float8<T>(-f).bits, nearest_bits(values, finite) | 0x80) << x;
  }
  EXPECT_TRUE(std::isnan(to_float(to_float8<T>(nan))));
}

TEST(Float8, ConversionsRoundToTheNearest) {
  expect_nearest<e4m3>(DType::e4m3);
  expect_nearest<e5m2>(DType::e5m2);
  EXPECT_EQ(to_float(e5m2{0x7c}), infinity);
  EXPECT_TRUE(std::isnan(to_float(e4m3{0x7f})) && std::isnan(to_float(e5m2{0xfd})));
}

/// What a row must become: over the smallest power of two with which its largest magnitude fits.
double scale_for(const Array& row, double most) {
  double amax = 0;
  for (const double x : row) amax = std::max(amax, std::abs(x));
  return amax == 0 ? 1 : std::exp2(std::max(-125.0, std::ceil(std::log2(amax / most))));
}

TEST(Float8, RowsHaveScalesOfTheirOwn) {
  for (const DType format : {DType::e4m3, DType::e5m2})
    for (const DType t : float_types)
      for (const std::int64_t dim : widths) {
        const std::vector<double> values = finite_values(format);
        constexpr std::int64_t rows = 5;
        Array x = random(rows * dim, t, 3);
        for (std::int64_t i = 0; i < dim; ++i) {
          x[static_cast<std::size_t>(dim + i)] *= 0x1p-60;
          x[static_cast<std::size_t>(2 * dim + i)] *= 0x1p60;
          x[static_cast<std::size_t>(3 * dim + i)] = 0;
          x[static_cast<std::size_t>(4 * dim + i)] =
              i % 2 == 0 ? values.back() : -1;  // its scale is exactly 1
        }
        const Device in(x, t), out(rows * dim, DType::u8), scales(rows, DType::f32),
            back(rows * dim, DType::bf16);
        quantize_rows(space(), rows, dim, t, in.data(), format, out.data(), scales.as<float>());
        dequantize_rows(space(), rows, dim, format, out.data(), scales.as<float>(), 1, back.data());
        const Array found = scales.read(), again = back.read();
        const std::vector<std::byte> bytes = out.bytes();
        for (std::int64_t r = 0; r < rows; ++r) {
          const Array row(x.begin() + r * dim, x.begin() + (r + 1) * dim);
          const double scale = scale_for(row, values.back());
          EXPECT_EQ(found[static_cast<std::size_t>(r)], scale) << r;
          for (std::int64_t i = 0; i < dim; ++i) {
            const double own = row[static_cast<std::size_t>(i)];
            const int bits = nearest_bits(values, std::abs(own) / scale);
            const auto at = static_cast<std::size_t>(r * dim + i);
            ASSERT_EQ(std::to_integer<int>(bytes[at]) & 0x7f, bits) << own;
            ASSERT_EQ(again[at], std::copysign(values[static_cast<std::size_t>(bits)] * scale, own));
          }
        }
      }
}

/// The scale of the largest magnitude of all, which stands in the last row; or all is spoilt by a bad number.
TEST(Float8, ATensorHasOneScale) {
  for (const DType format : {DType::e4m3, DType::e5m2})
    for (const DType t : float_types)
      for (const std::int64_t dim : widths)
        for (const std::int64_t rows : {1, 5})
          for (const bool bad : {false, true}) {
            const std::vector<double> values = finite_values(format);
            Array x = random(rows * dim, t, 3);
            x.back() *= 0x1p12;
            const double scale = scale_for(x, values.back());
            if (bad) x.front() = -infinity;
            const Device in(x, t), out(rows * dim, DType::u8), scales(rows, DType::f32);
            quantize_tensor(space(), rows, dim, t, in.data(), format, out.data(), scales.as<float>());
            const Array found = scales.read();
            const std::vector<std::byte> bytes = out.bytes();
            for (const double own : found) {
              if (bad)
                EXPECT_TRUE(std::isnan(own));
              else
                EXPECT_EQ(own, scale);
            }
            if (bad) continue;
            for (std::size_t i = 0; i < x.size(); ++i)
              ASSERT_EQ(std::to_integer<int>(bytes[i]) & 0x7f, nearest_bits(values, std::abs(x[i]) / scale))
                  << i;
          }
}

/// A part of a row has a scale of its own, a power of two, and so becomes what the whole row would make of
/// it: every number but those that are below the format's normal ones by the larger scale.
TEST(Float8, APartOfARowIsRoundedLikeTheRow) {
  constexpr std::int64_t rows = 4, dim = 64, part = 24;
  for (const DType format : {DType::e4m3, DType::e5m2})
    for (const DType t : float_types) {
      Array x = random(rows * dim, t, 6);
      for (std::int64_t r = 0; r < rows; ++r)  // the rest of a row has a larger number than the part
        x[static_cast<std::size_t>((r + 1) * dim - 1)] = std::ldexp(3.0, static_cast<int>(2 * r) + 4);
      Array of_part;
      for (std::int64_t r = 0; r < rows; ++r)
        of_part.insert(of_part.end(), x.begin() + r * dim, x.begin() + r * dim + part);
      const auto rounded = [&](const Array& values, std::int64_t width) {
        const Device in(values, t), out(rows * width, DType::u8), scales(rows, DType::f32),
            back(rows * width, DType::bf16);
        quantize_rows(space(), rows, width, t, in.data(), format, out.data(), scales.as<float>());
        dequantize_rows(space(), rows, width, format, out.data(), scales.as<float>(), 1, back.data());
        return std::pair(back.read(), scales.read());
      };
      const auto [whole, scales] = rounded(x, dim);
      const auto [alone, own_scales] = rounded(of_part, part);
      const double least = format == DType::e4m3 ? 0x1p-6 : 0x1p-14;  // of the normal ones
      int equal = 0;
      for (std::size_t r = 0; r < rows; ++r) {
        EXPECT_LT(own_scales[r], scales[r]);
        for (std::size_t i = 0; i < part; ++i) {
          if (std::abs(x[r * dim + i]) < least * scales[r]) continue;
          EXPECT_EQ(alone[r * part + i], whole[r * dim + i]) << x[r * dim + i];
          ++equal;
        }
      }
      EXPECT_GT(equal, rows * part / 2);
    }
}

TEST(Float8, ABadNumberSpoilsItsRowAlone) {
  for (const float bad : {nan, infinity, -infinity}) {
    constexpr std::int64_t rows = 3, dim = 40;
    Array x = random(rows * dim, DType::f32, 4);
    x[dim + 7] = bad;
    const Device in(x, DType::f32), out(rows * dim, DType::u8), scales(rows, DType::f32),
        back(rows * dim, DType::bf16);
    quantize_rows(space(), rows, dim, DType::f32, in.data(), DType::e5m2, out.data(), scales.as<float>());
    dequantize_rows(space(), rows, dim, DType::e5m2, out.data(), scales.as<float>(), 1, back.data());
    const Array again = back.read();
    for (std::size_t i = 0; i < again.size(); ++i)
      EXPECT_EQ(std::isnan(again[i]), i / dim == 1) << i << " with " << bad;
  }
}

/// Two matrices of a unit with scales of their own, the first of so many elements, cut over two ranks in the
/// middle of the second; behind them stands padding.
void check_runs(std::int64_t first) {
  SCOPED_TRACE(first);
  constexpr std::int64_t second = 9000, half = 8192, padded = 2 * half;
  Array vector = random(padded, DType::f32, 5, 0.02);
  for (std::int64_t i = first; i < first + second; ++i) vector[static_cast<std::size_t>(i)] *= 100;
  const double of_first = scale_for({vector.begin(), vector.begin() + first}, 448),
               of_second = scale_for({vector.begin() + first, vector.begin() + first + second}, 448);
  EXPECT_NE(of_first, of_second);
  const std::vector<ScaledRun> runs[2] = {{{0, first, 1}, {first, half - first, 0}},
                                          {{0, first + second - half, 0}}};
  const Device largest(Array(3, 0), DType::f32), scales(3, DType::f32);
  const Device halves[2] = {Device(Array(vector.begin(), vector.begin() + half), DType::f32),
                            Device(Array(vector.begin() + half, vector.end()), DType::f32)};
  for (int rank = 0; rank < 2; ++rank)
    amax(space(), runs[rank], halves[rank].as<float>(), largest.as<float>());
  float8_scales(space(), 3, largest.as<float>(), scales.as<float>());
  EXPECT_EQ(scales.read(), (Array{of_second, of_first, 1}));
  for (int rank = 0; rank < 2; ++rank) {
    const Device out(half, DType::u8), untouched(half, DType::u8);
    quantize_runs(space(), runs[rank], halves[rank].as<float>(), scales.as<float>(), out.data());
    const std::vector<std::byte> bytes = out.bytes(), before = untouched.bytes();
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int64_t at = rank * half + i;
      const double scale = at < first ? of_first : of_second;
      const auto expected =
          at < first + second
              ? std::byte{to_float8<e4m3>(static_cast<float>(vector[static_cast<std::size_t>(at)] / scale))
                              .bits}
              : before[static_cast<std::size_t>(i)];
      ASSERT_EQ(bytes[static_cast<std::size_t>(i)], expected) << at;
    }
  }
}

TEST(Float8, RunsOfAVectorHaveScalesOfTheirOwn) {
  for (const std::int64_t first : {5000, 5001, 5120}) check_runs(first);  // 5120 divides by 16
}

TEST(Float8, ABadWeightSpoilsItsScale) {
  const Device weights(Array{1, nan, 2}, DType::f32), largest(Array(2, 0), DType::f32), scales(2, DType::f32);
  const std::vector<ScaledRun> runs{{0, 3, 0}};
  amax(space(), runs, weights.as<float>(), largest.as<float>());
  float8_scales(space(), 2, largest.as<float>(), scales.as<float>());
  EXPECT_TRUE(std::isnan(scales.read()[0]));
  EXPECT_EQ(scales.read()[1], 1);
}

/// The product of decoded operands, in double.
Array product(const MatmulSpec& s, const Array& x, const Array& w, const Array& before) {
  const bool forward = s.form == MatmulForm::forward;
  const std::int64_t summed = forward ? s.in : s.out, width = forward ? s.out : s.in;
  Array y(static_cast<std::size_t>(s.rows * width));
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t c = 0; c < width; ++c) {
      double sum = s.add ? before[static_cast<std::size_t>(r * width + c)] : 0;
      for (std::int64_t k = 0; k < summed; ++k)
        sum += x[static_cast<std::size_t>(r * summed + k)] *
               w[static_cast<std::size_t>(forward ? c * summed + k : k * width + c)];
      y[static_cast<std::size_t>(r * width + c)] = sum;
    }
  return y;
}

/// Sizes that 16 divides, which devices multiply as they are, and others.
TEST(Float8, ProductsAreThoseOfTheValues) {
  for (const MatmulForm form : {MatmulForm::forward, MatmulForm::dgrad})
    for (const DType format : {DType::e4m3, DType::e5m2})
      for (const auto& [rows, in, out] :
           {std::array{24, 48, 32}, std::array{7, 32, 80}, std::array{5, 19, 33}})
        for (const auto& [scaling, add] : {std::pair{Float8Scales::rowwise, false},
                                           {Float8Scales::rowwise, true},
                                           {Float8Scales::tensorwise, false},
                                           {Float8Scales::tensorwise, true}}) {
          const bool rowwise = scaling == Float8Scales::rowwise;
          const MatmulSpec spec{form, rows, in, out, DType::bf16, DType::bf16, add};
          const std::int64_t summed = form == MatmulForm::forward ? in : out, width = in + out - summed;
          Array x = random(rows * summed, DType::bf16, 6), w = random(in * out, DType::f32, 7, 0.02);
          if (rowwise)
            for (std::int64_t i = 0; i < summed; ++i) x[static_cast<std::size_t>(summed + i)] *= 0x1p12;
          const Array before = random(rows * width, DType::bf16, 8);
          const Device of_x(x, DType::bf16), of_w(w, DType::f32), x8(rows * summed, DType::u8),
              w8(in * out, DType::u8), scale(rows, DType::f32), largest(Array{0, 0}, DType::f32),
              scales(2, DType::f32), y(before, DType::bf16), x16(rows * summed, DType::bf16),
              w16(in * out, DType::bf16);
          (rowwise ? quantize_rows : quantize_tensor)(space(), rows, summed, DType::bf16, of_x.data(), format,
                                                      x8.data(), scale.as<float>());
          const std::vector<ScaledRun> all{{0, in * out, 1}};
          amax(space(), all, of_w.as<float>(), largest.as<float>());
          float8_scales(space(), 2, largest.as<float>(), scales.as<float>());
          quantize_runs(space(), all, of_w.as<float>(), scales.as<float>(), w8.data());
          const std::unique_ptr<Float8Matmul> matmul = make_float8_matmul(spec, format, scaling);
          if (!device_is_host() && in % 16 == 0 && out % 16 == 0) {  // or it is decoded, which is as right
            EXPECT_EQ(matmul->scratch_bytes(), gpu::float8_product_bytes(spec, scaling));
          }
          const Buffer work = scratch(matmul->scratch_bytes());
          matmul->run(space(), x8.data(), scale.as<float>(), w8.data(), scales.as<float>() + 1, y.data(),
                      work.data());
          dequantize_rows(space(), rows, summed, format, x8.data(), scale.as<float>(), 1, x16.data());
          dequantize_rows(space(), out, in, DType::e4m3, w8.data(), scales.as<float>() + 1, 0, w16.data());
          EXPECT_TRUE(
              close(y.read(), product(spec, x16.read(), w16.read(), before), tolerance(DType::bf16), 1e-3))
              << rows << " x " << in << " x " << out << (add ? ", added" : "")
              << (rowwise ? "" : ", one scale");
          EXPECT_LT(distance(x16.read(), x), format == DType::e4m3 ? 0.04 : 0.08);
          EXPECT_LT(distance(w16.read(), w), 0.04);
        }
}

TEST(Float8, BytesAreTransposed) {
  constexpr std::int64_t rows = 24, columns = 40;
  const Device x(random(rows * columns, DType::f32, 9), DType::f32), from(rows * columns, DType::u8),
      to(rows * columns, DType::u8), scales(rows, DType::f32);
  quantize_rows(space(), rows, columns, DType::f32, x.data(), DType::e4m3, from.data(), scales.as<float>());
  transpose_bytes(space(), rows, columns, from.data(), to.data());
  const std::vector<std::byte> before = from.bytes(), after = to.bytes();
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c)
      ASSERT_EQ(after[c * rows + r], before[r * columns + c]) << r << ' ' << c;
  EXPECT_NE(before[0], before[1]);
  EXPECT_THROW(transpose_bytes(space(), 12, 8, from.data(), to.data()), std::logic_error);
}

}  // namespace
}  // namespace weft::kernels
