// The kernel that adds the sum of squares of a gradient to an exact register.
#include <fmt/core.h>

#include <stdexcept>
#include <type_traits>

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
[[maybe_unused]] KOKKOS_INLINE_FUNCTION double chunk_squares(const float* g, std::int64_t count) {
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
struct SumSquares {
  static constexpr int team = 1;
  static constexpr std::size_t scratch_bytes() { return exact_limbs * sizeof(std::int64_t); }
  std::int64_t n;
  const float* g;
  std::int64_t* limbs;

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    auto* own = static_cast<std::int64_t*>(member.team_shmem().get_shmem(scratch_bytes()));
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

/// Sums chunks like SumSquares, with the same bits. The 16 sums of a chunk belong to neighbouring threads,
/// which read neighbouring elements.
struct SumSquaresByLanes {
  static constexpr int team = 256, chunks_at_once = team / lane_sums;
  std::int64_t n;
  const float* g;
  std::int64_t* limbs;

  /// The sum of squares of every 16th of a chunk's elements, from `begin` on.
  KOKKOS_FUNCTION double lane_sum(std::int64_t begin) const {
    float x[chunk / lane_sums];
    for (int i = 0; i < chunk / lane_sums; ++i) {  // all loads are under way before the first sum
      const std::int64_t at = begin + i * lane_sums;
      x[i] = at < n ? g[at] : 0;
    }
    double sum = 0;
    for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
    return sum;
  }

  static constexpr std::size_t scratch_bytes() {
    return exact_limbs * sizeof(std::int64_t) + team * sizeof(double);
  }

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    auto* own = static_cast<std::int64_t*>(member.team_shmem().get_shmem(scratch_bytes()));
    auto* sums = reinterpret_cast<double*>(own + exact_limbs);
    const int thread = member.team_rank(), lane = thread % lane_sums;
    if (thread < exact_limbs) own[thread] = 0;
    const std::int64_t first = static_cast<std::int64_t>(member.league_rank()) * chunks_per_team;
    for (std::int64_t at = 0; at < chunks_per_team; at += chunks_at_once) {
      sums[thread] = lane_sum((first + at + thread / lane_sums) * chunk + lane);
      member.team_barrier();
      for (int half = lane_sums / 2; half > 0; half /= 2) {
        if (lane < half) sums[thread] += sums[thread + half];
        member.team_barrier();
      }
      if (thread < chunks_at_once)
        exact_accumulate(sums[thread * lane_sums], [&](int limb, std::int64_t value) {
          if (value != 0) Kokkos::atomic_add(own + limb, value);
        });
      member.team_barrier();
    }
    if (thread < exact_limbs && own[thread] != 0) Kokkos::atomic_add(limbs + thread, own[thread]);
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
  using Sum = std::conditional_t<runs_on_host, SumSquares, SumSquaresByLanes>;
  constexpr int team = runs_on_host ? SumSquares::team : SumSquaresByLanes::team;
  constexpr std::size_t scratch_bytes =
      runs_on_host ? SumSquares::scratch_bytes() : SumSquaresByLanes::scratch_bytes();
  static_assert(block_starts(team, scratch_bytes));
  auto policy = Kokkos::TeamPolicy<Execution>(execution_of(space), teams, team);
  policy.set_scratch_size(0, Kokkos::PerTeam(scratch_bytes));
  Kokkos::parallel_for("weft::sum_squares::chunks", policy, Sum{n, g, limbs});
  Kokkos::parallel_for("weft::sum_squares::carry", Kokkos::RangePolicy<Execution>(execution_of(space), 0, 1),
                       Carry{limbs});
}

}  // namespace weft::kernels
