// A timeline over a CUDA stream. Includes no CUDA header: streams and events are void* (cudaStream_t,
// cudaEvent_t).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/event.hpp"

namespace weft::comm {

/// Operations are the intervals between begin() and end(). Marks are kept in a ring: an old event stands for
/// a later one of the same stream, which is conservative. Used by one thread; allocates at construction only.
class StreamTimeline final : public Timeline {
 public:
  /// `stream` belongs to the caller and outlives the timeline.
  explicit StreamTimeline(void* stream);
  ~StreamTimeline() override;
  StreamTimeline(const StreamTimeline&) = delete;
  StreamTimeline& operator=(const StreamTimeline&) = delete;

  /// The stream waits for the events before it goes on; the host waits only for those of host timelines.
  void wait(std::span<const Event> deps);
  void begin();
  Event end();

  bool done(std::uint64_t value) override;
  void sync(std::uint64_t value) override;
  void* native_event(std::uint64_t value) override;

  void* stream() const { return stream_; }
  std::uint64_t last() const { return last_; }
  /// Seconds of device time inside finished intervals.
  double busy_seconds();

 private:
  struct Marks {
    void* begin = nullptr;
    void* end = nullptr;
  };
  Marks& marks(std::uint64_t value) { return ring_[value % ring_.size()]; }
  /// Adds up intervals until `value`, or to the first unfinished one.
  void account(std::uint64_t value);

  void* stream_;
  std::vector<Marks> ring_;
  std::uint64_t last_ = 0;       ///< the newest interval that has ended
  std::uint64_t accounted_ = 0;  ///< intervals up to here are in busy_ms_
  double busy_ms_ = 0;
};

}  // namespace weft::comm
