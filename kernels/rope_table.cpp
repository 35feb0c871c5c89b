// Fills the table of rotary angles, on the host.
#include <cmath>
#include <vector>

#include "base/portable_math.hpp"
#include "kernels/rope.hpp"

namespace weft::kernels {

namespace {

/// The scaled frequency. Wavelengths up to original / high_freq_factor stay, those beyond original /
/// low_freq_factor are stretched by `factor`, and those between are blended. All of it is fp32, as in the
/// sources named at the declaration.
float scaled_frequency(float frequency, const RopeScaling& s) {
  const auto original = static_cast<float>(s.original_max_position);
  const float wavelength = static_cast<float>(2.0 * M_PI) / frequency;
  if (wavelength < original / s.high_freq_factor) return frequency;
  if (wavelength > original / s.low_freq_factor) return frequency / s.factor;
  const float smooth = (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1.0f - smooth) * frequency / s.factor + smooth * frequency;
}

}  // namespace

void fill_rope_table(float* table, std::int64_t max_pos, std::int64_t head_dim, float theta,
                     RopeScaling scaling) {
  const std::int64_t pairs = head_dim / 2;
  std::vector<float> frequencies(static_cast<std::size_t>(pairs));
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    // The power is taken in double and rounded, which is what a correctly rounded powf returns.
    const float frequency =
        1.0f / static_cast<float>(portable::pow(static_cast<double>(theta), static_cast<double>(exponent)));
    frequencies[static_cast<std::size_t>(i)] =
        scaling.enabled ? scaled_frequency(frequency, scaling) : frequency;
  }
  for (std::int64_t position = 0; position < max_pos; ++position) {
    float* row = table + position * head_dim;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(position) * frequencies[static_cast<std::size_t>(i)];
      const auto [cosine, sine] = portable::of_radians(static_cast<double>(angle));
      row[2 * i] = static_cast<float>(cosine);
      row[2 * i + 1] = static_cast<float>(sine);
    }
  }
}

}  // namespace weft::kernels
