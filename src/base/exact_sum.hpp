// An exact accumulator for doubles: the result does not depend on the order of the additions, so partial sums
// may be combined over blocks, units and ranks in any order. It is Kulisch's fixed-point register (Kulisch &
// Miranker, 1986) in signed 64-bit limbs that hold 32 bits each; the spare bits make exact_additions safe
// between carries.
#pragma once

#include <cstdint>

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

namespace detail {

/// 2^e for -1074 <= e <= 1023, infinity above. Powers of two are exact without ldexp, which device code lacks
/// for this range.
WEFT_FUNCTION double power_of_two(int e) {
  const std::uint64_t bits = e > 1023     ? 0x7ffull << 52
                             : e >= -1022 ? static_cast<std::uint64_t>(e + 1023) << 52
                                          : std::uint64_t{1} << (e + 1074);
  return bit_cast<double>(bits);
}

}  // namespace detail

/// The value of the register `limbs` [exact_limbs], whose sum must not be negative; single terms may be. It
/// is correctly rounded up to one unit in the last place, infinity from 2^1024 on, and NaN when a NaN or an
/// infinity was added.
WEFT_FUNCTION double exact_value(const std::int64_t* limbs) {
  constexpr int last = exact_limbs - 1;
  // Carry upwards, so that every digit lies in [0, 2^32).
  std::int64_t digits[exact_limbs];
  std::int64_t carry = 0;
  for (int i = 0; i < last; ++i) {
    const std::int64_t sum = limbs[i] + carry;
    carry = sum >> 32;
    digits[i] = sum & 0xffffffff;
  }
  // The digits do not overlap, and are added from the top down: the sum of the first three that are not zero
  // already holds 64 bits.
  double value = carry != 0 ? detail::power_of_two(1024) : 0.0;
  for (int i = last - 1; i >= 0; --i)
    if (digits[i] != 0) value += static_cast<double>(digits[i]) * detail::power_of_two(32 * i - 1074);
  return limbs[last] != 0 ? bit_cast<double>(0x7ff8ull << 48) : value;
}

}  // namespace weft
