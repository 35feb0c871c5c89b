#include "kernels/value_hash.hpp"

#include <stdexcept>

#include "kernels/kokkos_space.hpp"
#include "kernels/mix.hpp"

namespace weft::kernels {
namespace {

/// Hashes runs of elements; `Bits` is the unsigned type of the element's size, so NaNs and signed zeros count
/// as what they are.
template <class Bits>
struct RunHash {
  /// On the host a sum of a run's own stays in registers, so that the loop becomes one of vectors.
  static constexpr std::int64_t run = runs_on_host ? 1024 : 1;
  std::int64_t n;
  const Bits* data;
  std::uint64_t first;
  std::uint64_t seed;
  KOKKOS_FUNCTION void operator()(std::int64_t r, std::uint64_t& sum) const {
    const std::int64_t begin = r * run, end = begin + run < n ? begin + run : n;
    std::uint64_t own = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      // Mixing twice makes both equal bits at two places, and two values at one place, unrelated.
      const std::uint64_t key = mix(seed ^ mix(first + static_cast<std::uint64_t>(i)));
      own += mix(key ^ static_cast<std::uint64_t>(data[i]));
    }
    sum += own;
  }
};

template <class Bits>
std::uint64_t sum(Space& space, std::int64_t n, const void* data, std::int64_t first, std::uint64_t seed) {
  using Policy = Kokkos::RangePolicy<Execution, Kokkos::IndexType<std::int64_t>>;
  std::uint64_t total = 0;
  Kokkos::parallel_reduce(
      "weft::value_hash::elements",
      Policy(execution_of(space), 0, (n + RunHash<Bits>::run - 1) / RunHash<Bits>::run),
      RunHash<Bits>{n, static_cast<const Bits*>(data), static_cast<std::uint64_t>(first), seed}, total);
  return total;
}

}  // namespace

std::uint64_t value_hash(Space& space, std::int64_t n, const void* data, DType t, std::int64_t first,
                         std::uint64_t seed) {
  switch (size_of(t)) {
    case 1: return sum<std::uint8_t>(space, n, data, first, seed);
    case 2: return sum<std::uint16_t>(space, n, data, first, seed);
    case 4: return sum<std::uint32_t>(space, n, data, first, seed);
    case 8: return sum<std::uint64_t>(space, n, data, first, seed);
    default: throw std::logic_error("value_hash: no elements of this size");
  }
}

}  // namespace weft::kernels
