#include "comm/event.hpp"

namespace weft::comm {
namespace {
constexpr int spins_before_sleep = 200;
}

void HostTimeline::sync(std::uint64_t value) {
  for (int i = 0; i < spins_before_sleep; ++i) {
    if (done(value)) return;
  }
  std::unique_lock lock(mutex_);
  // Both sides are sequentially consistent: either this thread sees the new value here, or complete() sees
  // the sleeper and notifies it.
  sleepers_.fetch_add(1);
  advanced_.wait(lock, [&] { return completed_.load() >= value; });
  sleepers_.fetch_sub(1);
}

void HostTimeline::complete(std::uint64_t value) {
  completed_.store(value);
  if (sleepers_.load() == 0) return;
  std::lock_guard lock(mutex_);
  advanced_.notify_all();
}

}  // namespace weft::comm
