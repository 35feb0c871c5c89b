#include "comm/host/engine.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/affinity.hpp"
#include "base/clock.hpp"
#include "comm/host/host_channel.hpp"

namespace weft::comm::detail {
namespace {

// After the last call the transport is nudged for a while: a library without asynchronous progress may
// still hold the tail of a small message that it reported as sent. Each pause is twice as long as the one
// before, because a nudge takes the core from compute. A tail is then delayed by no more than the time it has
// already been on its way.
constexpr auto first_nudge = std::chrono::milliseconds(2);
constexpr auto last_nudge = std::chrono::milliseconds(256);
/// How long a team's meeting is looked at without a sleep, which would take longer than most neighbours need.
constexpr std::int64_t awake_ns = 30'000;

void sleep_between_polls(std::int64_t ns) {
  const timespec pause{0, ns};
  nanosleep(&pause, nullptr);
}

}  // namespace

Engine::Engine(Options options) : options_(std::move(options)) {
  if (options_.drive == Drive::thread) thread_ = std::thread([this] { loop(); });
}

Engine::~Engine() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Engine::run(const std::function<void()>& task) {
  if (options_.drive == Drive::caller) return task();
  std::unique_lock lock(mutex_);
  task_ = &task;
  wake_.notify_one();
  task_done_.wait(lock, [this] { return task_ == nullptr; });
  if (task_error_) std::rethrow_exception(std::exchange(task_error_, nullptr));
}

void Engine::attach(HostChannel* channel) {
  run([&] { channels_.push_back(channel); });
}

void Engine::detach(HostChannel* channel) {
  run([&] { std::erase(channels_, channel); });
}

void Engine::work_added() {
  if (work_.fetch_add(1) > 0 || options_.drive == Drive::caller) return;
  std::lock_guard lock(mutex_);
  wake_.notify_one();
}

bool Engine::poll() {
  // A dependency on a channel of the same engine asks again while that channel is being polled.
  if (polling_) return false;
  polling_ = true;
  bool moved = false;
  for (HostChannel* channel : channels_) moved |= channel->progress();
  polling_ = false;
  return moved;
}

void Engine::run_task() {
  std::lock_guard lock(mutex_);
  if (task_ == nullptr) return;
  try {
    (*task_)();
  } catch (...) {
    task_error_ = std::current_exception();
  }
  task_ = nullptr;
  task_done_.notify_one();
}

void Engine::wait_for_work() {
  const auto ready = [this] { return stop_ || task_ != nullptr || work_.load() > 0; };
  std::unique_lock lock(mutex_);
  for (auto pause = first_nudge; !ready() && options_.idle && pause <= last_nudge; pause *= 2) {
    // No notification is lost, because the lock is held whenever the condition is tested.
    wake_.wait_until(lock, std::chrono::system_clock::now() + pause);
    options_.idle();
  }
  wake_.wait(lock, ready);
}

void Engine::loop() {
  reset_affinity();
  prctl(PR_SET_NAME, "weft-comm");
  prctl(PR_SET_TIMERSLACK, 1000);  // the default slack would double the sleep
  for (;;) {
    if (work_.load() == 0) wait_for_work();
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
    }
    run_task();
    if (poll()) {
      moved_ns_ = nanoseconds_now();
    } else if (work_.load() > 0) {
      pause();
    }
  }
}

void Engine::pause() {
  std::int64_t in_flight = 0, done = 0;
  bool meets = false;
  for (const HostChannel* channel : channels_) {
    in_flight += channel->bytes_in_flight();
    done += channel->bytes_done();
    meets |= channel->meets();
  }
  const std::int64_t now = nanoseconds_now();
  if (meets && now - moved_ns_ < awake_ns) return std::this_thread::yield();
  sleep_between_polls(pace_.pause_ns(in_flight, done, now));
}

}  // namespace weft::comm::detail
