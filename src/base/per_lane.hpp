// An array with one entry for each lane, and the lists of lanes.
#pragma once

#include <array>
#include <cstddef>

#include "base/lane.hpp"

namespace weft {

inline constexpr std::array all_lanes{Lane::compute, Lane::gather, Lane::reduce, Lane::replica};
static_assert(all_lanes.size() == lane_count);
/// The lanes on which collectives run.
inline constexpr std::array communication_lanes{Lane::gather, Lane::reduce, Lane::replica};

/// An array whose index is a lane. Entries in braces are in the order compute, gather, reduce, replica.
template <class T>
struct PerLane {
  std::array<T, lane_count> values{};

  constexpr T& operator[](Lane lane) { return values[static_cast<std::size_t>(lane)]; }
  constexpr const T& operator[](Lane lane) const { return values[static_cast<std::size_t>(lane)]; }
  bool operator==(const PerLane&) const = default;
  auto begin() const { return values.begin(); }
  auto end() const { return values.end(); }
};

}  // namespace weft
