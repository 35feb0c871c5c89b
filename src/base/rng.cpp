#include "base/rng.hpp"

#include <cmath>

#include "base/hash.hpp"
#include "base/portable_math.hpp"

namespace weft {

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high) {
  std::array<std::uint32_t, 4> c{
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view name) : key_(seed), name_(hash_text(name)) {}

std::uint64_t RandomStream::bits(std::uint64_t i) const {
  const auto r = philox(key_, i, name_);
  return (std::uint64_t{r[0]} << 32) | r[1];
}

double RandomStream::uniform(std::uint64_t i) const {
  return static_cast<double>(bits(i) >> 11) * 0x1p-53;
}

double RandomStream::normal(std::uint64_t i) const {
  const auto r = philox(key_, i, name_);
  // A uniform number in (0, 1].
  const double u = (static_cast<double>(((std::uint64_t{r[0]} << 32) | r[1]) >> 11) + 1.0) * 0x1p-53;
  const double v = static_cast<double>(((std::uint64_t{r[2]} << 32) | r[3]) >> 11) * 0x1p-53;
  return std::sqrt(-2.0 * portable::log(u)) * portable::of_turns(v).cos;
}

}  // namespace weft
