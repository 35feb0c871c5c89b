#include "comm/host/pace.hpp"

#include <algorithm>

#include "comm/portions.hpp"

namespace weft::comm::detail {
namespace {
constexpr double bytes_a_look = 8 * default_chunk_bytes;
}  // namespace

std::int64_t Pace::pause_ns(std::int64_t in_flight, std::int64_t done, std::int64_t now_ns) {
  const std::int64_t moved = done - done_;
  // The rate is adjusted when much was under way. Where all has ended the link was idle for a while, and
  // where nothing has ended the peer may not have begun. A rate that is too high costs looks, and one that is
  // too low delays ends.
  if (moved > 0 && static_cast<double>(in_flight_) >= bytes_a_look && now_ns > looked_ns_) {
    const double seen = static_cast<double>(moved) / static_cast<double>(now_ns - looked_ns_);
    const double least = moved < in_flight_ ? 0.8 * bytes_per_ns_ : bytes_per_ns_;
    bytes_per_ns_ = std::clamp(seen, least, 4 * bytes_per_ns_);
  }
  const double soon = std::min(bytes_a_look, static_cast<double>(in_flight) / 2);
  const auto wanted = static_cast<std::int64_t>(soon / bytes_per_ns_);
  // A short call's answer should not be late by much, and a long wait for a peer should cost little.
  const std::int64_t least = moved > 0 ? shortest_ns : std::min(longest_idle_ns, pause_ns_ + pause_ns_ / 8);
  pause_ns_ = std::clamp(wanted, least, longest_ns);
  in_flight_ = in_flight;
  done_ = done;
  looked_ns_ = now_ns;
  return pause_ns_;
}

}  // namespace weft::comm::detail
