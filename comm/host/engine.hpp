// The engine drives the host channels, either on a thread of its own, which makes all calls of the transport,
// or when its caller asks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "comm/host/pace.hpp"

namespace weft::comm::detail {

class HostChannel;

class Engine {
 public:
  enum class Drive { thread, caller };
  struct Options {
    Drive drive = Drive::thread;
    /// Called now and then while no call is pending, because buffered messages of finished calls
    /// still need a push.
    std::function<void()> idle;
    /// Called on the engine's thread when a call has failed; it ends the process with this exit code.
    std::function<void(const std::string& line, ExitCode code)> failed;
  };

  explicit Engine(Options options);
  /// Stops and joins the thread. The channels must have been detached before.
  ~Engine();

  /// Runs `task` on the engine's thread and waits for it; throws what it throws. It is for calls of the
  /// transport at start-up.
  void run(const std::function<void()>& task);
  void attach(HostChannel* channel);
  /// Takes a channel out; after this the engine does not touch it any more.
  void detach(HostChannel* channel);

  /// Tells that a call was submitted, or is finished. The thread sleeps while none is pending.
  void work_added();
  void work_done() { work_.fetch_sub(1); }
  /// Lets every channel progress once; returns whether any did. It runs on the engine's thread, or on the
  /// caller's when there is none.
  bool poll();
  Drive drive() const { return options_.drive; }
  void fail(const std::string& line, ExitCode code) { options_.failed(line, code); }

 private:
  void loop();
  void wait_for_work();
  void run_task();
  void pause();

  Options options_;
  std::vector<HostChannel*> channels_;  // only the driving thread touches them
  std::atomic<int> work_{0};
  bool polling_ = false;
  Pace pace_;
  std::int64_t moved_ns_ = 0;  ///< when something moved last

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable task_done_;
  const std::function<void()>* task_ = nullptr;
  std::exception_ptr task_error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weft::comm::detail
