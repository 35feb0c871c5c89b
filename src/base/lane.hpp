// Lanes: the queues that a plan's instructions run on. On CUDA a lane is a stream; on the host `compute` is
// the main thread and the communication lanes are first-in-first-out queues of the communication thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// The lanes gather and reduce run over the axis that state is cut over, and replica over the axis that
/// repeats it. With a lane of its own, what travels between hosts does not stand in line behind what stays
/// inside one.
enum class Lane : std::uint8_t { compute, gather, reduce, replica };
inline constexpr int lane_count = 4;

constexpr std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::compute: return "compute";
    case Lane::gather: return "gather";
    case Lane::reduce: return "reduce";
    case Lane::replica: return "replica";
  }
  return "?";
}

}  // namespace weft
