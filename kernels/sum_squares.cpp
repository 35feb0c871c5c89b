// The kernel that adds the sum of squares of a gradient to an exact register.
#include <fmt/core.h>

#include <stdexcept>

#include "base/limits.hpp"
#include "kernels/kokkos_space.hpp"
#include "kernels/update.hpp"

namespace weft::kernels {

namespace {

constexpr std::int64_t chunk = shard_granularity;
constexpr std::int64_t chunks_per_team = 256;
constexpr int lane_sums = 16;

/// The fp64 sum of squares of up to 256 elements: 16 interleaved sums, folded in halves. An element that is
/// not there counts as a zero, so a shorter chunk has the order of a full one. The square of an fp32 is exact
/// in fp64.
KOKKOS_INLINE_FUNCTION double chunk_squares(const float* g, std::int64_t count) {
  double sums[lane_sums] = {};
  std::int64_t i = 0;
  for (; i + lane_sums <= count; i += lane_sums)
    for (int lane = 0; lane < lane_sums; ++lane) {
      const double x = static_cast<double>(g[i + lane]);
      sums[lane] += x * x;
    }
  for (int lane = 0; i + lane < count; ++lane) {
    const double x = static_cast<double>(g[i + lane]);
    sums[lane] += x * x;
  }
  for (int half = lane_sums / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

/// Sums chunks. A team adds its chunks into a register of its own, and then that register into `limbs`. These
/// are integers, so the order does not matter.
/// order.
struct SumSquares {
  std::int64_t n;
  const float* g;
  std::int64_t* limbs;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    auto* own = static_cast<std::int64_t*>(member.team_shmem().get_shmem(exact_limbs * sizeof(std::int64_t)));
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, exact_limbs), [&](int i) { own[i] = 0; });
    member.team_barrier();
    const std::int64_t first = static_cast<std::int64_t>(member.league_rank()) * chunks_per_team;
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, chunks_per_team), [&](std::int64_t i) {
      const std::int64_t begin = (first + i) * chunk;
      if (begin >= n) return;
      const double sum = chunk_squares(g + begin, n - begin < chunk ? n - begin : chunk);
      exact_accumulate(sum, [&](int limb, std::int64_t value) {
        if (value != 0) Kokkos::atomic_add(own + limb, value);
      });
    });
    member.team_barrier();
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member, exact_limbs), [&](int i) {
      if (own[i] != 0) Kokkos::atomic_add(limbs + i, own[i]);
    });
  }
};

/// Brings all limbs but the top one of the finite range into [0, 2^32).
struct Carry {
  std::int64_t* limbs;

  KOKKOS_FUNCTION void operator()(std::int64_t) const {
    constexpr int top = exact_limbs - 2;  // the last limb counts NaNs and infinities
    for (int i = 0; i < top; ++i) {
      limbs[i + 1] += limbs[i] >> 32;
      limbs[i] &= 0xffffffff;
    }
  }
};

}  // namespace

void sum_squares(Space& space, std::int64_t n, const float* g, std::int64_t* limbs) {
  if (n > limits::most_unit_elements)
    throw std::logic_error(fmt::format("sum_squares: {} elements are more than the exact sum holds", n));
  const std::int64_t per_team = chunk * chunks_per_team;
  const auto teams = static_cast<int>((n + per_team - 1) / per_team);
  if (teams == 0) return;
  auto policy = Kokkos::TeamPolicy<Execution>(execution_of(space), teams, runs_on_host ? 1 : 256);
  policy.set_scratch_size(0, Kokkos::PerTeam(exact_limbs * sizeof(std::int64_t)));
  Kokkos::parallel_for("weft::sum_squares::chunks", policy, SumSquares{n, g, limbs});
  Kokkos::parallel_for("weft::sum_squares::carry", Kokkos::RangePolicy<Execution>(execution_of(space), 0, 1),
                       Carry{limbs});
}

}  // namespace weft::kernels
