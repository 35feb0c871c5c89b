// An exact accumulator for doubles: the result does not depend on the order of the additions, so partial sums
// may be combined over blocks, units and ranks in any order. It is Kulisch's fixed-point register (Kulisch &
// Miranker, 1986) in signed 64-bit limbs that hold 32 bits each; the spare bits make exact_additions safe
// between carries.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/dtype.hpp"

namespace weft {

/// Limbs cover 2^-1074 .. 2^1024, the whole range of double, and one more for carries.
inline constexpr int exact_limbs = 68;
inline constexpr std::int64_t exact_additions = std::int64_t{1} << 30;

/// Adds the finite double `x` to the register. `add(limb, value)` does the integer addition (plain or
/// atomic). A NaN or an infinity is recorded in the last limb, which no finite value reaches.
template <class Add>
WEFT_FUNCTION void exact_accumulate(double x, Add&& add) {
  const auto bits = bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  std::uint64_t mantissa = bits & 0xfffffffffffffull;
  if (exponent == 0x7ff) {
    add(exact_limbs - 1, std::int64_t{1});
    return;
  }
  if (exponent != 0) mantissa |= 1ull << 52;
  const int shift = exponent == 0 ? 0 : exponent - 1;  // bit position above 2^-1074
  const int limb = shift / 32;
  const int offset = shift % 32;
  const std::uint64_t low = (mantissa & 0xffffffffull) << offset;  // < 2^64
  const std::uint64_t high = (mantissa >> 32) << offset;           // < 2^53
  const std::int64_t sign = (bits >> 63) ? -1 : 1;
  add(limb, sign * static_cast<std::int64_t>(low & 0xffffffffull));
  add(limb + 1, sign * static_cast<std::int64_t>((low >> 32) + (high & 0xffffffffull)));
  add(limb + 2, sign * static_cast<std::int64_t>(high >> 32));
}

/// The register's value, correctly rounded up to one unit in the last place; NaN when a NaN or an infinity
/// was added.
double exact_value(std::span<const std::int64_t, exact_limbs> limbs);

}  // namespace weft
