// Internal: functions that compilers inline and vectorise, with the same bits in a vector loop and in its
// remainder.
#pragma once

#include <cstdint>
#include <limits>

#include "base/dtype.hpp"

namespace weft::kernels {

/// e^x to about 2 units in the last place (Cephes' expf: Cody-Waite reduction, a polynomial of degree five).
/// It is 0 below -87.33, infinity above 88.37, and NaN for NaN.
WEFT_FUNCTION float exp_f32(float x) {
#ifdef __CUDA_ARCH__
  return expf(x);  // it has the device's own power of two, and results below 1.2e-38 too
#else
  // The number 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits.
  constexpr float magic = 12582912.0f;
  const float shifted = x * 1.44269504088896341f + magic;
  const float n = shifted - magic;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * (r * r) + r + 1.0f;
  const auto power = bit_cast<float>((bit_cast<std::uint32_t>(shifted) - 0x4b400000u + 127u) << 23);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float value = y * power;
  return x < -87.33f ? 0.0f : (x > 88.37f ? infinity : value);
#endif
}

/// 1 / y for 1 <= y <= 2^125, to two units in the last place (one where multiply and add fuse). It is a guess
/// from the bits (off by an eighth at most) and two steps of third order. A division of vectors would take
/// the whole divider for as long as twenty of these.
WEFT_FUNCTION float reciprocal_f32(float y) {
  auto r = bit_cast<float>(0x7ef311c7u - bit_cast<std::uint32_t>(y));
  float off = 1.0f - y * r;
  r += r * (off * off + off);
  off = 1.0f - y * r;
  return r + r * (off * off + off);
}

}  // namespace weft::kernels
