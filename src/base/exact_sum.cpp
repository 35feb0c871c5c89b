#include "base/exact_sum.hpp"

#include <cmath>
#include <limits>

namespace weft {

double exact_value(std::span<const std::int64_t, exact_limbs> limbs) {
  if (limbs[exact_limbs - 1] != 0) return std::numeric_limits<double>::quiet_NaN();
  // Carry upwards so that every limb lies in [0, 2^32); the top one keeps the sign.
  std::array<std::int64_t, exact_limbs> digits{};
  std::int64_t carry = 0;
  for (int i = 0; i < exact_limbs - 1; ++i) {
    const std::int64_t sum = limbs[static_cast<std::size_t>(i)] + carry;
    carry = sum >> 32;
    digits[static_cast<std::size_t>(i)] = sum & 0xffffffff;
  }
  // The terms do not overlap, and are added from the top down: the sum of the first three nonzero digits
  // already holds 64 bits.
  double value = std::ldexp(static_cast<double>(carry), 32 * (exact_limbs - 1) - 1074);
  for (int i = exact_limbs - 2; i >= 0; --i)
    value += std::ldexp(static_cast<double>(digits[static_cast<std::size_t>(i)]), 32 * i - 1074);
  return value;
}

}  // namespace weft
