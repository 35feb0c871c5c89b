#include "kernels/rope.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

Array table_of(std::int64_t max_pos, std::int64_t head_dim, float theta, RopeScaling scaling) {
  std::vector<float> table(static_cast<std::size_t>(max_pos * head_dim));
  fill_rope_table(table.data(), max_pos, head_dim, theta, scaling);
  return Array(table.begin(), table.end());
}

TEST(Rope, TableWithoutScaling) {
  const Array table = table_of(100, 8, 10000.0f, {});
  for (int position = 0; position < 100; ++position)
    for (int i = 0; i < 4; ++i) {
      const double angle = position * std::pow(10000.0, -i / 4.0);
      EXPECT_NEAR(table[static_cast<std::size_t>(position * 8 + 2 * i)], std::cos(angle), 1e-5);
      EXPECT_NEAR(table[static_cast<std::size_t>(position * 8 + 2 * i + 1)], std::sin(angle), 1e-5);
    }
}

TEST(Rope, Llama31Scaling) {
  // With theta 500000 and D 128, frequency 0 is short (kept), 63 is long (divided by 8), and 30 lies between.
  // The expected frequencies are those of transformers' `_compute_llama3_parameters`, computed in fp64.
  const RopeScaling scaling{true, 8, 1, 4, 8192};
  const Array table = table_of(2, 128, 500000.0f, scaling);
  const auto frequency = [&](std::size_t i) { return std::asin(table[128 + 2 * i + 1]); };
  const auto plain = [](int i) { return std::pow(500000.0, -i / 64.0); };
  EXPECT_NEAR(std::asin(std::sin(1.0)), frequency(0), 1e-6);
  EXPECT_NEAR(frequency(10) / plain(10), 1.0, 1e-6);
  EXPECT_NEAR(frequency(63) / plain(63), 1.0 / 8, 1e-6);
  const double wavelength = 2 * M_PI / plain(30);
  ASSERT_GT(wavelength, 8192.0 / 4);
  ASSERT_LT(wavelength, 8192.0);
  const double smooth = (8192.0 / wavelength - 1) / (4 - 1);
  EXPECT_NEAR(frequency(30) / plain(30), (1 - smooth) / 8 + smooth, 1e-6);
}

TEST(Rope, RotatesAndRotatesBack) {
  for (DType t : float_types)
    for (std::int64_t rows : odd_sizes)
      for (std::int64_t head_dim : {2, 6, 64}) {
        const RopeShape shape{rows, 3, head_dim};
        const Array table = table_of(50, head_dim, 10000.0f, {});
        const Tokens positions = random_tokens(rows, 50, 1);
        const Array x = random(rows * 3 * head_dim, t, 2);
        const Device inout(x, t);
        const Device table_device(table, DType::f32);
        const DeviceTokens positions_device(positions);
        for (auto direction : {RopeDirection::forward, RopeDirection::backward}) {
          const Array before = inout.read();
          rope(space(), shape, t, inout.data(), positions_device.data(), table_device.as<float>(),
               inout.data(), direction);
          EXPECT_TRUE(
              close(inout.read(), reference::rope(shape, before, positions, table, direction), tolerance(t)))
              << name_of(t) << " rows " << rows << " head_dim " << head_dim;
        }
        EXPECT_TRUE(close(inout.read(), x, 2 * tolerance(t)));
      }
}

/// An array whose rows are made of the rows of all arrays, side by side.
Array side_by_side(std::int64_t rows, const std::vector<Array>& parts) {
  Array all;
  for (std::int64_t r = 0; r < rows; ++r)
    for (const Array& part : parts) {
      const auto width = static_cast<std::int64_t>(part.size()) / rows;
      all.insert(all.end(), part.begin() + r * width, part.begin() + (r + 1) * width);
    }
  return all;
}

TEST(Rope, SplitsAndJoins) {
  for (DType t : float_types)
    for (std::int64_t rows : odd_sizes)
      for (const auto& [heads, kv_heads] : {std::pair{3, 3}, std::pair{6, 2}}) {
        SCOPED_TRACE(testing::Message() << name_of(t) << " rows " << rows << " heads " << heads);
        constexpr std::int64_t d = 6;
        const QkvShape shape{rows, heads, kv_heads, d};
        const RopeShape q_shape{rows, heads, d}, k_shape{rows, kv_heads, d};
        const Array table = table_of(50, d, 10000.0f, {});
        const Tokens positions = random_tokens(rows, 50, 1);
        const Device table_device(table, DType::f32);
        const DeviceTokens positions_device(positions);
        const std::int64_t queries = rows * heads * d, keys = rows * kv_heads * d;
        const Array q = random(queries, t, 2), k = random(keys, t, 3), v = random(keys, t, 4);
        const auto turned = [&](RopeShape s, const Array& x, RopeDirection direction) {
          return reference::rope(s, x, positions, table, direction);
        };

        const Device qkv(side_by_side(rows, {q, k, v}), t), q_out(queries, t), k_out(keys, t), v_out(keys, t);
        rope_split(space(), shape, t, qkv.data(), positions_device.data(), table_device.as<float>(),
                   q_out.data(), k_out.data(), v_out.data());
        EXPECT_TRUE(close(q_out.read(), turned(q_shape, q, RopeDirection::forward), tolerance(t)));
        EXPECT_TRUE(close(k_out.read(), turned(k_shape, k, RopeDirection::forward), tolerance(t)));
        EXPECT_EQ(v_out.read(), v);

        const Device joined(queries + 2 * keys, t);
        rope_join(space(), shape, t, Device(q, t).data(), Device(k, t).data(), Device(v, t).data(),
                  positions_device.data(), table_device.as<float>(), joined.data());
        EXPECT_TRUE(close(joined.read(),
                          side_by_side(rows, {turned(q_shape, q, RopeDirection::backward),
                                              turned(k_shape, k, RopeDirection::backward), v}),
                          tolerance(t)));
      }
}

}  // namespace
}  // namespace weft::kernels
