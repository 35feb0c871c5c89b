#include "kernels/state_hash.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>

#include "base/hash.hpp"
#include "base/unit.hpp"
#include "kernels/mix.hpp"

namespace weft::kernels {

std::uint64_t state_hash(Space&, std::int64_t n, const void* data, DType t, std::int64_t first_chunk_index,
                         std::int64_t valid_elements, std::uint64_t seed) {
  using Policy = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  const std::int64_t valid = std::clamp<std::int64_t>(valid_elements, 0, n);
  const std::int64_t chunks = (valid + shard_granularity - 1) / shard_granularity;
  const auto* bytes = static_cast<const unsigned char*>(data);
  const std::size_t element = size_of(t);
  std::uint64_t sum = 0;
  Kokkos::parallel_reduce(
      "weft::state_hash::chunks", Policy(0, chunks),
      [=](std::int64_t i, std::uint64_t& total) {
        const std::int64_t begin = i * shard_granularity;
        const std::int64_t count = std::min(shard_granularity, valid - begin);
        total += hash_bytes(bytes + static_cast<std::size_t>(begin) * element,
                            static_cast<std::size_t>(count) * element,
                            seed ^ mix(static_cast<std::uint64_t>(first_chunk_index + i)));
      },
      sum);
  return sum;
}

}  // namespace weft::kernels
