#include "base/portable_math.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace weft::portable {
namespace {

// Products of ln_2_high with exponents, and of the first two parts of half pi with counts of quarters below
// 2^24, are exact: their last bits are zeros.
constexpr double ln_2_high = 0x1.62e42fee00000p-1;
constexpr double ln_2_low = 0x1.a39ef35793c76p-33;
constexpr double half_pi_1 = 0x1.921fb54p+0;
constexpr double half_pi_2 = 0x1.10b461p-30;
constexpr double half_pi_3 = 0x1.a62633145c06ep-58;

/// The number 2^n, for an n whose result is a normal number.
double power_of_two(int n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

// Sine and cosine by Taylor's series, to beyond the last bit for |x| up to pi / 4.
double sine(double x) {
  const double s = x * x;
  double p = 1.0 / 355687428096000.0;  // 17!
  p = 1.0 / 1307674368000.0 - s * p;
  p = 1.0 / 6227020800.0 - s * p;
  p = 1.0 / 39916800.0 - s * p;
  p = 1.0 / 362880.0 - s * p;
  p = 1.0 / 5040.0 - s * p;
  p = 1.0 / 120.0 - s * p;
  p = 1.0 / 6.0 - s * p;
  return x - x * (s * p);
}

double cosine(double x) {
  const double s = x * x;
  double p = 1.0 / 20922789888000.0;  // 16!
  p = 1.0 / 87178291200.0 - s * p;
  p = 1.0 / 479001600.0 - s * p;
  p = 1.0 / 3628800.0 - s * p;
  p = 1.0 / 40320.0 - s * p;
  p = 1.0 / 720.0 - s * p;
  p = 1.0 / 24.0 - s * p;
  p = 0.5 - s * p;
  return 1.0 - s * p;
}

/// Cosine and sine of the sum of `quarters` quarter turns and `angle` radians, which is at most an eighth of
/// a turn.
CosSin turned(std::int64_t quarters, double angle) {
  const double c = cosine(angle), s = sine(angle);
  switch (quarters & 3) {
    case 0: return {c, s};
    case 1: return {-s, c};
    case 2: return {-c, -s};
    default: return {s, -c};
  }
}

}  // namespace

// The logarithm: with x = 2^n m, and m within a root of two of 1, log m = 2 (s + s^3 / 3 + s^5 / 5 + ...),
// where s = (m - 1) / (m + 1).
double log(double x) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (x == 0) return -infinity;
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (!(x < infinity)) return x;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int n = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > std::numbers::sqrt2) {
    m *= 0.5;
    ++n;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double p = 1.0 / 23;
  for (int k = 21; k >= 3; k -= 2) p = 1.0 / k + square * p;
  const double exponent = n;
  return exponent * ln_2_high + (2 * s + (2 * s * (square * p) + exponent * ln_2_low));
}

double exp(double x) {
  if (x < -708) return 0;
  if (x > 709) return std::numeric_limits<double>::infinity();
  const double n = std::floor(x * (1 / std::numbers::ln2) + 0.5);
  const double r = (x - n * ln_2_high) - n * ln_2_low;
  double p = 1.0 / 14;
  for (int k = 13; k >= 1; --k) p = (1 + r * p) / k;
  return (1 + r * p) * power_of_two(static_cast<int>(n));
}

double pow(double x, double y) {
  return exp(y * log(x));
}

CosSin of_turns(double turns) {
  const double quarters = std::floor(4 * turns + 0.5);
  return turned(static_cast<std::int64_t>(quarters), 2 * std::numbers::pi * (turns - 0.25 * quarters));
}

CosSin of_radians(double angle) {
  const double quarters = std::floor(angle * (2 / std::numbers::pi) + 0.5);
  const double left = ((angle - quarters * half_pi_1) - quarters * half_pi_2) - quarters * half_pi_3;
  return turned(static_cast<std::int64_t>(quarters), left);
}

}  // namespace weft::portable
