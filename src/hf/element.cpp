#include "hf/element.hpp"

#include <cmath>
#include <cstring>

#include "base/dtype.hpp"

namespace weft::hf {
namespace {

constexpr std::uint32_t infinity = 0x7f800000U;

std::uint32_t bits_of(float x) {
  std::uint32_t u = 0;
  std::memcpy(&u, &x, sizeof u);
  return u;
}

bool is_finite(float x) {
  return (bits_of(x) & infinity) != infinity;
}

}  // namespace

std::string_view name_of(Element element) {
  switch (element) {
    case Element::f32: return "F32";
    case Element::bf16: return "BF16";
    case Element::f16: return "F16";
  }
  return {};
}

std::optional<Element> element_from(std::string_view name) {
  for (const Element element : {Element::f32, Element::bf16, Element::f16})
    if (name_of(element) == name) return element;
  return std::nullopt;
}

std::int64_t size_of(Element element) {
  return element == Element::f32 ? 4 : 2;
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t exponent = (half >> 10U) & 31U, mantissa = half & 0x3ffU;
  const bool negative = (half & 0x8000U) != 0;
  if (exponent == 0) return std::copysign(static_cast<float>(mantissa) * 0x1p-24F, negative ? -1.0F : 1.0F);
  const std::uint32_t u = (negative ? 0x80000000U : 0U) |
                          (exponent == 31 ? infinity : (exponent + 112U) << 23U) | mantissa << 13U;
  float x = 0;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

std::uint16_t float_to_half(float x) {
  const std::uint32_t sign = bits_of(x) >> 16U & 0x8000U, u = bits_of(x) & 0x7fffffffU;
  std::uint32_t half = 0;
  if (u > infinity)
    half = 0x7e00U | (u >> 13U & 0x3ffU);
  else if (u >= 0x477ff000U)  // 65520, half way between the largest number and the next power of two
    half = 0x7c00U;
  else if (u < 0x38800000U)  // below 2^-14, numbers are multiples of 2^-24
    half = static_cast<std::uint32_t>(std::nearbyint(std::fabs(x) * 0x1p24F));
  else
    half = (u + 0xfffU + (u >> 13U & 1U) - (112U << 23U)) >> 13U;
  return static_cast<std::uint16_t>(sign | half);
}

void to_f32(Element type, const std::byte* from, std::int64_t n, float* to) {
  if (type == Element::f32) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = type == Element::bf16 ? to_float(bf16{bits}) : half_to_float(bits);
  }
}

bool from_f32(Element type, const float* from, std::int64_t n, std::byte* to) {
  if (type == Element::f32) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
    return true;
  }
  const std::uint16_t infinite = type == Element::bf16 ? 0x7f80U : 0x7c00U;
  bool in_range = true;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint16_t bits = type == Element::bf16 ? to_bf16(from[i]).bits : float_to_half(from[i]);
    if ((bits & 0x7fffU) == infinite) in_range &= !is_finite(from[i]);
    std::memcpy(to + 2 * i, &bits, sizeof bits);
  }
  return in_range;
}

}  // namespace weft::hf
