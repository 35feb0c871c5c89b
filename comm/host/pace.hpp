// Decides how long the thread that drives the channels sleeps between two looks at them.
#pragma once

#include <cstdint>

namespace weft::comm::detail {

/// Compute has the same core. A sleep that ends takes 25 to 45 us of it (seen on virtual machines: the timer,
/// two switches, cold caches), whether much has happened or not. Sockets move bytes by themselves. So while
/// many bytes are under way, the sleep lasts until about eight messages have come. When few are left of all
/// exchanges, it lasts half of the time that these will take.
class Pace {
 public:
  static constexpr std::int64_t shortest_ns = 50'000;
  /// The longest sleep while nothing moves, and little is under way.
  static constexpr std::int64_t longest_idle_ns = 200'000;
  /// The longest sleep; at 10 Gbit/s, 64 messages last as long.
  static constexpr std::int64_t longest_ns = 3'000'000;

  /// The length of the next sleep. `in_flight` are the bytes of the messages under way in one direction,
  /// `done` the bytes of all that ever ended, and `now_ns` is any steady clock.
  std::int64_t pause_ns(std::int64_t in_flight, std::int64_t done, std::int64_t now_ns);

 private:
  /// Rate of the links while they are busy; the first guess leads to short sleeps.
  double bytes_per_ns_ = 10;
  std::int64_t pause_ns_ = shortest_ns;
  std::int64_t in_flight_ = 0, done_ = 0, looked_ns_ = 0;  ///< what they were at the last look
};

}  // namespace weft::comm::detail
