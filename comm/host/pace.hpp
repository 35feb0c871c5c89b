// How long the thread that drives the channels sleeps between two looks at them.
#pragma once

#include <cstdint>

namespace weft::comm::detail {

/// Compute has the same core: a sleep that ends takes 25 to 45 us of it (seen on virtual machines: the timer,
/// two switches, cold caches), whether much has happened or not. Sockets move bytes by themselves, so while
/// many are under way the sleep lasts until about eight messages have come, and when few are left of all
/// exchanges half of what these will take.
class Pace {
 public:
  static constexpr std::int64_t shortest_ns = 50'000;
  static constexpr std::int64_t longest_idle_ns = 200'000;  ///< while nothing moves, and little is under way
  static constexpr std::int64_t longest_ns = 3'000'000;     ///< 64 messages last as long at 10 Gbit/s

  /// The next sleep's length. in_flight: bytes of the messages under way, one direction; done: bytes of all
  /// that ever ended; now_ns: any steady clock.
  std::int64_t pause_ns(std::int64_t in_flight, std::int64_t done, std::int64_t now_ns);

 private:
  double bytes_per_ns_ = 10;  ///< of the links while they are busy; the first guess leads to short sleeps
  std::int64_t pause_ns_ = shortest_ns;
  std::int64_t in_flight_ = 0, done_ = 0, looked_ns_ = 0;  ///< at the last look
};

}  // namespace weft::comm::detail
