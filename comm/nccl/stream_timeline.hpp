// A timeline over a CUDA stream, which also works while the stream is captured into a graph. It includes no
// CUDA header: streams and events are void* (cudaStream_t, cudaEvent_t).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "comm/event.hpp"

namespace weft::comm {

/// Whether a timeline measures how long its operations take.
enum class Timing : std::uint8_t { off, on };

/// Owns a cudaEvent_t.
class StreamEvent {
 public:
  explicit StreamEvent(Timing timing);
  ~StreamEvent();
  StreamEvent(StreamEvent&& other) noexcept;
  StreamEvent& operator=(StreamEvent&& other) noexcept;

  void* get() const { return event_; }

 private:
  void* event_ = nullptr;
};

/// Operations are the intervals between begin() and end(). The marks of an interval that has ended serve a
/// later one. It is used by one thread, and allocates only when it is made, while it captures, and where more
/// intervals are pending than ever before (there are marks for 1,024 from the beginning).
///
/// While the stream is captured into a graph, an event is a node of the graph, and cannot be asked outside of
/// it. So the operations of a capture have events of their own, which hold until end_capture(), and are
/// numbered as if they ran. Afterwards the numbers go on as before the capture, because what is captured has
/// not run.
class StreamTimeline final : public Timeline {
 public:
  struct Interval {
    StreamEvent begin, end;
  };
  using Intervals = std::vector<Interval>;

  /// `stream` belongs to the caller and outlives the timeline.
  explicit StreamTimeline(void* stream, Timing timing = Timing::on);
  StreamTimeline(const StreamTimeline&) = delete;
  StreamTimeline& operator=(const StreamTimeline&) = delete;

  /// Lets the stream wait for the events before it goes on. The host waits only for events of host timelines.
  void wait(std::span<const Event> deps);
  void begin();
  Event end();

  bool done(std::uint64_t value) override;
  void sync(std::uint64_t value) override;
  void* native_event(std::uint64_t value) override;

  /// Tells that the stream is being captured, or will be with its next wait().
  void begin_capture();
  /// Call it before the capture's end. With Timing::on it returns events that each launch of the graph
  /// records.
  Intervals end_capture();
  /// Call it when a launch of that graph, the only one since the last call, has ended: its intervals count.
  void count(const Intervals& captured);

  void* stream() const { return stream_; }
  std::uint64_t last() const { return last_; }
  /// Seconds of device time in finished intervals; 0 with Timing::off.
  double busy_seconds();

 private:
  /// The marks of an interval from oldest_ on. Those before it have ended.
  Interval& marks(std::uint64_t value) { return marks_[value - oldest_]; }
  /// Sees to it that the next interval has marks.
  void make_room();
  /// Adds up the intervals up to the first that is not finished.
  void account();

  void* stream_;
  Timing timing_;
  std::deque<Interval> marks_;   ///< of the intervals from oldest_ on
  std::uint64_t oldest_ = 1;     ///< all intervals before this one have ended
  std::uint64_t last_ = 0;       ///< the newest interval whose end is marked
  std::uint64_t accounted_ = 0;  ///< intervals up to this one are in busy_ms_
  double busy_ms_ = 0;

  bool capturing_ = false;
  std::uint64_t before_capture_ = 0;        ///< last_ when the capture began
  std::vector<StreamEvent> captured_ends_;  ///< by value: events that other streams of the capture wait for
  Intervals captured_;
};

}  // namespace weft::comm
