// Events order work across lanes without blocking the host. An event is a point on a timeline that can be
// polled or depended on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace weft::comm {

/// A queue whose operations complete in order: operation number `value` (from 1) is done once all operations
/// up to it are done.
class Timeline {
 public:
  virtual ~Timeline() = default;
  /// Whether the operation is done. It polls, never blocks, and may be called on any thread.
  virtual bool done(std::uint64_t value) = 0;
  /// Blocks the host until done(value); it is for logging, tests and the host executor only.
  virtual void sync(std::uint64_t value) = 0;
  /// The cudaEvent_t to make a stream wait for, or nullptr when the timeline lives on the host.
  virtual void* native_event(std::uint64_t /*value*/) { return nullptr; }
};

/// A point on a timeline. It is a value without ownership: the timeline outlives it. The default Event is
/// done.
struct Event {
  Timeline* timeline = nullptr;
  std::uint64_t value = 0;
};

inline bool done(const Event& event) {
  return event.timeline == nullptr || event.timeline->done(event.value);
}
inline void sync(const Event& event) {
  if (event.timeline != nullptr) event.timeline->sync(event.value);
}

/// A timeline that the host advances: the executor's compute lane, and the channels of the communication
/// thread.
class HostTimeline : public Timeline {
 public:
  bool done(std::uint64_t value) override { return completed_.load(std::memory_order_acquire) >= value; }
  /// Spins for about a microsecond, and then sleeps, because a rank may share its only core with the
  /// communication thread.
  void sync(std::uint64_t value) override;
  /// Marks everything up to `value` as done. Values must not decrease, and only one thread calls this.
  void complete(std::uint64_t value);

 private:
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable advanced_;
};

}  // namespace weft::comm
