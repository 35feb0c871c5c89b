// An array with one entry for each lane, and the lists of lanes.
#pragma once

#include <array>
#include <cstddef>

#include "base/lane.hpp"

namespace weft {

inline constexpr std::array all_lanes{Lane::compute,       Lane::gather,  Lane::reduce,    Lane::replica,
                                      Lane::pipe,          Lane::tensor,  Lane::copies,    Lane::context,
                                      Lane::from_previous, Lane::to_next, Lane::from_next, Lane::to_previous};
static_assert(all_lanes.size() == lane_count);
/// The lanes on which messages travel: those of collectives, and those between stages.
inline constexpr std::array communication_lanes{
    Lane::gather,  Lane::reduce,        Lane::replica, Lane::pipe,      Lane::tensor,     Lane::copies,
    Lane::context, Lane::from_previous, Lane::to_next, Lane::from_next, Lane::to_previous};
/// The lanes between the stages of a pipe.
inline constexpr std::array stage_lanes{Lane::from_previous, Lane::to_next, Lane::from_next,
                                        Lane::to_previous};
constexpr bool is_between_stages(Lane lane) {
  return lane >= Lane::from_previous;
}

/// An array whose index is a lane. Entries in braces are in the order of all_lanes.
template <class T>
struct PerLane {
  std::array<T, lane_count> values{};

  constexpr T& operator[](Lane lane) { return values[static_cast<std::size_t>(lane)]; }
  constexpr const T& operator[](Lane lane) const { return values[static_cast<std::size_t>(lane)]; }
  bool operator==(const PerLane&) const = default;
  auto begin() const { return values.begin(); }
  auto end() const { return values.end(); }
};

/// Sums over the lanes of the axes data and replica; over those of the axis pipe, messages between stages
/// among them; and over those of the axis tensor.
constexpr double of_data_lanes(const PerLane<double>& lanes) {
  return lanes[Lane::gather] + lanes[Lane::reduce] + lanes[Lane::replica];
}
constexpr double of_pipe_lanes(const PerLane<double>& lanes) {
  double sum = lanes[Lane::pipe];
  for (const Lane lane : stage_lanes) sum += lanes[lane];
  return sum;
}
constexpr double of_tensor_lanes(const PerLane<double>& lanes) {
  return lanes[Lane::tensor] + lanes[Lane::copies];
}

}  // namespace weft
