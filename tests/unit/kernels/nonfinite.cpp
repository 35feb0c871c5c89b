#include "kernels/nonfinite.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(CountNonfinite, CountsEachKindInEachType) {
  for (const DType t : {DType::f32, DType::bf16, DType::f64})
    for (const std::int64_t n : odd_sizes) {
      Array values = random(n, DType::bf16, 1, 1e30);
      const auto found = [&] { return count_nonfinite(space(), n, Device(values, t).data(), t); };
      EXPECT_FALSE(found().any()) << n;
      values.front() = -infinity;
      if (n > 2) values[static_cast<std::size_t>(n / 2)] = -nan;
      values.back() = infinity;
      EXPECT_EQ(found().infinities, n > 1 ? 2 : 1) << name_of(t) << ' ' << n;
      EXPECT_EQ(found().nans, n > 2 ? 1 : 0) << name_of(t) << ' ' << n;
    }
}

TEST(CountNonfinite, NothingIsAnInteger) {
  const Device ones(Array(8, nan), DType::f32);
  EXPECT_FALSE(count_nonfinite(space(), 8, ones.data(), DType::i32).any());
  EXPECT_FALSE(count_nonfinite(space(), 0, ones.data(), DType::f32).any());
}

}  // namespace
}  // namespace weft::kernels
