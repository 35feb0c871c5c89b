#include "kernels/value_hash.hpp"

#include <cmath>
#include <numeric>
#include <set>

#include "kernels/memory.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

constexpr std::uint64_t seed = 11;

template <class T>
std::uint64_t hash(const std::vector<T>& values, DType t, std::int64_t first = 0, std::uint64_t with = seed) {
  const Buffer buffer(values.size() * sizeof(T), "values");
  copy_to_device(rig::space(), buffer.data(), values.data(), buffer.size());
  return value_hash(rig::space(), static_cast<std::int64_t>(values.size()), buffer.data(), t, first, with);
}

std::vector<float> ramp(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.5F);
  return values;
}

TEST(ValueHash, PartsAddUpToTheWhole) {
  const std::vector<float> all = ramp(1003);
  const std::uint64_t whole = hash(all, DType::f32);
  for (const std::ptrdiff_t cut : {0, 1, 255, 256, 1000, 1003}) {
    const std::vector<float> left(all.begin(), all.begin() + cut), right(all.begin() + cut, all.end());
    EXPECT_EQ(hash(left, DType::f32) + hash(right, DType::f32, cut), whole) << cut;
  }
}

TEST(ValueHash, SeesEveryBitAndEveryPlace) {
  const std::vector<float> all = ramp(77);
  std::set<std::uint64_t> seen{hash(all, DType::f32), hash(all, DType::f32, 1),
                               hash(all, DType::f32, 0, seed + 1)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<float> changed = all;
    changed[i] = std::nextafter(changed[i], 1e9F);
    seen.insert(hash(changed, DType::f32));
    if (i == 0) continue;
    std::vector<float> swapped = all;
    std::swap(swapped[0], swapped[i]);
    seen.insert(hash(swapped, DType::f32));
  }
  EXPECT_EQ(seen.size(), 3U + 77 + 76);
  EXPECT_NE(hash(std::vector<float>{0.0F}, DType::f32), hash(std::vector<float>{-0.0F}, DType::f32));
}

TEST(ValueHash, TakesElementsOfAllSizes) {
  std::set<std::uint64_t> seen;
  seen.insert(hash(std::vector<std::uint8_t>{1, 2, 3}, DType::u8));
  seen.insert(hash(std::vector<bf16>{{100}, {200}, {300}}, DType::bf16));
  seen.insert(hash(std::vector<std::int32_t>{-1, 2, 3}, DType::i32));
  seen.insert(hash(std::vector<double>{1, 2, 3}, DType::f64));
  EXPECT_EQ(seen.size(), 4U);
  EXPECT_EQ(hash(std::vector<double>{}, DType::f64), 0U);
}

}  // namespace
}  // namespace weft::kernels
