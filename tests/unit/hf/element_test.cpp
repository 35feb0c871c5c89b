#include "hf/element.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace weft::hf {
namespace {

TEST(Element, EveryHalfComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float x = half_to_float(half);
    if (std::isnan(x))
      EXPECT_TRUE((half & 0x7fffU) > 0x7c00U && std::isnan(half_to_float(float_to_half(x)))) << bits;
    else
      EXPECT_EQ(float_to_half(x), half) << bits;
  }
}

TEST(Element, HalvesAreIeee) {
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(half_to_float(0x03ff), 1023 * 0x1p-24F);
  EXPECT_EQ(half_to_float(0x0400), 0x1p-14F);
  EXPECT_EQ(half_to_float(0x3c00), 1.0F);
  EXPECT_EQ(half_to_float(0xc000), -2.0F);
  EXPECT_EQ(half_to_float(0x7bff), 65504.0F);
  EXPECT_EQ(half_to_float(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::signbit(half_to_float(0x8000)));
}

/// Between two neighbours, the middle goes to the even one, and anything beside it to the nearer one.
TEST(Element, HalvesRoundToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7bffU; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (half_to_float(low) + half_to_float(high)) / 2;
    EXPECT_EQ(float_to_half(middle), bits % 2 == 0 ? low : high) << bits;
    EXPECT_EQ(float_to_half(std::nextafterf(middle, 0)), low) << bits;
    EXPECT_EQ(float_to_half(-std::nextafterf(middle, 1e6F)), high | 0x8000U) << bits;
  }
  EXPECT_EQ(float_to_half(65519.99F), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(1e30F), 0x7c00);
  EXPECT_EQ(float_to_half(1e-30F), 0);
}

TEST(Element, SaysWhatIsOutOfRange) {
  std::vector<std::byte> bytes(8);
  const std::vector<float> large{1.0F, 70000.0F};
  EXPECT_FALSE(from_f32(Element::f16, large.data(), 2, bytes.data()));
  EXPECT_TRUE(from_f32(Element::bf16, large.data(), 2, bytes.data()));
  EXPECT_TRUE(from_f32(Element::f32, large.data(), 2, bytes.data()));
  const std::vector<float> largest{std::numeric_limits<float>::max()};
  EXPECT_FALSE(from_f32(Element::bf16, largest.data(), 1, bytes.data()));
  const std::vector<float> special{std::numeric_limits<float>::infinity(),
                                   std::numeric_limits<float>::quiet_NaN()};
  EXPECT_TRUE(from_f32(Element::f16, special.data(), 2, bytes.data()));
}

TEST(Element, ReadsFromAnyAddress) {
  const std::vector<float> values{1.5F, -0.375F, 3.0F};
  for (const Element type : {Element::f32, Element::bf16, Element::f16}) {
    std::vector<std::byte> bytes(16);
    ASSERT_TRUE(from_f32(type, values.data(), 3, bytes.data() + 1));
    std::vector<float> back(3);
    to_f32(type, bytes.data() + 1, 3, back.data());
    EXPECT_EQ(back, values) << name_of(type);
    EXPECT_EQ(element_from(name_of(type)), type);
  }
  EXPECT_FALSE(element_from("I64").has_value());
}

}  // namespace
}  // namespace weft::hf
