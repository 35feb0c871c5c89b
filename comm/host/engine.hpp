// The engine drives the host channels: on a thread of its own that makes all calls of the transport, or when
// its caller asks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/host/pace.hpp"

namespace weft::comm::detail {

class HostChannel;

class Engine {
 public:
  enum class Drive { thread, caller };
  struct Options {
    Drive drive = Drive::thread;
    /// Called now and then while no operation is pending: buffered messages of finished operations still need
    /// a push.
    std::function<void()> idle;
    /// Called on the engine's thread when an operation failed; ends the process.
    std::function<void(const std::string&)> failed;
  };

  explicit Engine(Options options);
  /// Stops and joins the thread. Channels have been detached before.
  ~Engine();

  /// Runs `task` on the engine's thread and waits for it; rethrows what it throws. For calls of the transport
  /// at start-up.
  void run(const std::function<void()>& task);
  void attach(HostChannel* channel);
  /// After this the channel is not touched any more.
  void detach(HostChannel* channel);

  /// An operation was submitted / is finished; the thread sleeps while none is pending.
  void work_added();
  void work_done() { work_.fetch_sub(1); }
  /// Lets every channel progress once; true if any did. On the engine's thread, or the caller's when there is
  /// none.
  bool poll();
  Drive drive() const { return options_.drive; }
  void fail(const std::string& line) { options_.failed(line); }

 private:
  void loop();
  void wait_for_work();
  void run_task();
  void pause();

  Options options_;
  std::vector<HostChannel*> channels_;  // touched by the driving thread only
  std::atomic<int> work_{0};
  bool polling_ = false;
  Pace pace_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable task_done_;
  const std::function<void()>* task_ = nullptr;
  std::exception_ptr task_error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weft::comm::detail
