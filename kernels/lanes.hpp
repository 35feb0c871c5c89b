// Internal: how a kernel's loops use the machine. On the host a row belongs to one thread, whose loops the
// compiler vectorises; on the device a row belongs to a team of threads. Sums have a fixed order in both,
// whatever the number of threads.
#pragma once

#include <cstdint>

#include "kernels/kokkos_space.hpp"
#include "kernels/packets.hpp"

namespace weft::kernels {

/// Works on a row on the host.
struct SimdLanes {
  template <class F>
  void each(std::int64_t n, const F& f) const {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) f(i);
  }
  template <class F>
  float sum(std::int64_t n, const F& f) const {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < n; ++i) total += f(i);
    return total;
  }
  template <class F>
  float max(std::int64_t n, const F& f) const {
    float largest = -Kokkos::Experimental::infinity_v<float>;
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < n; ++i) {
      const float x = f(i);
      largest = x > largest ? x : largest;
    }
    return largest;
  }
  /// Calls f(i, x...) for every i below n, with element i of each operand (kernels/packets.hpp). A thread of
  /// the device has `most` elements at a time or less.
  template <int most = 16, class F, class... Operands>
  void each_value(std::int64_t n, const F& f, const Operands... operands) const {
    const F own = f;  // what the loop writes cannot change this copy
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      on_element(
          i, [&](auto&... x) { own(i, x...); }, operands...);
  }
  /// Sums what f(x...) returns.
  template <class F, class... Operands>
  float sum_values(std::int64_t n, const F& f, const Operands... operands) const {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < n; ++i) total += f(operands.load(i)...);
    return total;
  }
  /// Takes the largest of what f(x...) returns, which is no NaN.
  template <class F, class... Operands>
  float max_values(std::int64_t n, const F& f, const Operands... operands) const {
    return max(n, [=](std::int64_t i) { return f(operands.load(i)...); });
  }
  template <class F>
  void once(const F& f) const {
    f();
  }
  void wait() const {}
  /// Fetches elements [n, 2n) behind x: those of the next row while this one is worked on, because rows are
  /// too short for processors to foresee (docs/kernels.md). There need not be any.
  template <class T>
  void fetch_next(const T* x, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; i += line_bytes / static_cast<std::int64_t>(sizeof(T)))
      __builtin_prefetch(x + n + i);
  }
  /// Fetches like fetch_next(), for elements that are written.
  template <class T>
  void fetch_next_to_write(const T* x, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; i += line_bytes / static_cast<std::int64_t>(sizeof(T)))
      __builtin_prefetch(x + n + i, 1);
  }

 private:
  static constexpr std::int64_t line_bytes = 64;
};

/// Works on a row on the device, by the threads of a team.
template <class Member>
struct TeamLanes {
  const Member& member;

  template <class F>
  KOKKOS_FUNCTION void each(std::int64_t n, const F& f) const {
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, n), f);
  }
  template <class F>
  KOKKOS_FUNCTION float sum(std::int64_t n, const F& f) const {
    float total = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member, n), [&](std::int64_t i, float& t) { t += f(i); }, total);
    return total;
  }
  template <class F>
  KOKKOS_FUNCTION float max(std::int64_t n, const F& f) const {
    float largest = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member, n),
        [&](std::int64_t i, float& m) {
          const float x = f(i);
          m = x > m ? x : m;
        },
        Kokkos::Max<float>(largest));
    return largest;
  }
  /// Calls f(begin) for every packet of n elements, a multiple of `count`.
  template <int count = packet, class F>
  KOKKOS_FUNCTION void each_packet(std::int64_t n, const F& f) const {
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member, n / count), [&](std::int64_t p) { f(p * count); });
  }
  template <int most = 16, class F, class... Operands>
  KOKKOS_FUNCTION void each_value(std::int64_t n, const F& f, const Operands... operands) const {
    if (takes_packets(n, operands...)) {
      constexpr int count = most < packet_of<Operands...> ? most : packet_of<Operands...>;
      each_packet<count>(n, [&](std::int64_t begin) {
        on_packet<count>(
            begin, [&](int j, auto&... x) { f(begin + j, x...); }, operands...);
      });
    } else {
      each(n, [&](std::int64_t i) {
        on_element(
            i, [&](auto&... x) { f(i, x...); }, operands...);
      });
    }
  }
  template <class F, class... Operands>
  KOKKOS_FUNCTION float sum_values(std::int64_t n, const F& f, const Operands... operands) const {
    if (!takes_packets(n, operands...)) return sum(n, [&](std::int64_t i) { return f(operands.load(i)...); });
    float own = 0;
    constexpr int count = packet_of<Operands...>;
    each_packet<count>(n, [&](std::int64_t begin) {
      on_packet<count>(
          begin, [&](int, auto&... x) { own += f(x...); }, operands...);
    });
    return sum_of_threads(own);
  }
  template <class F, class... Operands>
  KOKKOS_FUNCTION float max_values(std::int64_t n, const F& f, const Operands... operands) const {
    if (!takes_packets(n, operands...)) return max(n, [&](std::int64_t i) { return f(operands.load(i)...); });
    float own = -Kokkos::Experimental::infinity_v<float>;
    constexpr int count = packet_of<Operands...>;
    each_packet<count>(n, [&](std::int64_t begin) {
      on_packet<count>(
          begin,
          [&](int, auto&... x) {
            const float value = f(x...);
            own = value > own ? value : own;
          },
          operands...);
    });
    return max_of_threads(own);
  }
  /// The sum, or the largest, of a value that each thread has.
  KOKKOS_FUNCTION float sum_of_threads(float own) const {
    return sum(member.team_size(), [&](std::int64_t) { return own; });
  }
  KOKKOS_FUNCTION float max_of_threads(float own) const {
    return max(member.team_size(), [&](std::int64_t) { return own; });
  }
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    Kokkos::single(Kokkos::PerTeam(member), f);
  }
  /// Waits until all threads have done what stands before, because another loop may give an element to
  /// another thread.
  KOKKOS_FUNCTION void wait() const { member.team_barrier(); }
  template <class T>
  KOKKOS_FUNCTION void fetch_next(const T*, std::int64_t) const {}
  template <class T>
  KOKKOS_FUNCTION void fetch_next_to_write(const T*, std::int64_t) const {}
};

namespace detail {

template <class F>
struct OnTeam {
  F f;
  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    f(TeamLanes<Member>{member}, static_cast<std::int64_t>(member.league_rank()));
  }
};

template <class F>
struct OnThread {
  F f;
  void operator()(std::int64_t row) const { f(SimdLanes{}, row); }
};

inline constexpr std::int64_t host_block = 4096;

template <class F>
struct OnBlock {
  F f;
  std::int64_t n;
  void operator()(std::int64_t block) const {
    const std::int64_t first = block * host_block;
    const std::int64_t last = first + host_block < n ? first + host_block : n;
    const F own = f;  // what the loop writes cannot change this copy
#pragma omp simd
    for (std::int64_t i = first; i < last; ++i) own(i);
  }
};

}  // namespace detail

/// Threads of the device that share a row.
inline constexpr int device_team = 256;
static_assert(block_starts(device_team, 0));

/// Calls f(lanes, row) for every row.
template <class F>
void for_each_row(Space& space, const char* name, std::int64_t rows, const F& f) {
  if (rows == 0) return;
  if constexpr (runs_on_host) {
    using Policy = Kokkos::RangePolicy<Execution, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(name, Policy(execution_of(space), 0, rows), detail::OnThread<F>{f});
  } else {
    using Policy = Kokkos::TeamPolicy<Execution, Kokkos::LaunchBounds<device_team>>;
    Kokkos::parallel_for(name, Policy(execution_of(space), static_cast<int>(rows), device_team),
                         detail::OnTeam<F>{f});
  }
}

/// Calls f(i) for every i below n. Different i must not touch the same element.
template <class F>
void for_each_element(Space& space, const char* name, std::int64_t n, const F& f) {
  if (n == 0) return;
  using Policy = Kokkos::RangePolicy<Execution, Kokkos::IndexType<std::int64_t>>;
  if constexpr (runs_on_host) {
    const std::int64_t blocks = (n + detail::host_block - 1) / detail::host_block;
    Kokkos::parallel_for(name, Policy(execution_of(space), 0, blocks), detail::OnBlock<F>{f, n});
  } else {
    Kokkos::parallel_for(name, Policy(execution_of(space), 0, n), f);
  }
}

namespace detail {

template <class F>
struct OnStretch {
  static constexpr std::int64_t elements = runs_on_host ? host_block : 4 * packet * device_team;
  F f;
  std::int64_t n;
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t stretch) const {
    const std::int64_t begin = stretch * elements;
    f(lanes, begin, n - begin < elements ? n - begin : elements);
  }
};

}  // namespace detail

/// Calls f(lanes, begin, count) for stretches of n elements, for loops over lanes.each_value.
template <class F>
void for_each_stretch(Space& space, const char* name, std::int64_t n, const F& f) {
  constexpr std::int64_t elements = detail::OnStretch<F>::elements;
  for_each_row(space, name, (n + elements - 1) / elements, detail::OnStretch<F>{f, n});
}

}  // namespace weft::kernels
