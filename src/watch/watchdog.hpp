// The watchdog: ends a run in which a collective does not end, and says who was missing from it, or in which
// storage does not answer, and says which file.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "comm/world.hpp"
#include "watch/look.hpp"

namespace weft::watch {

struct WatchdogOptions {
  std::string run_dir;     ///< of all ranks: records go to RUN_DIR/hang/ID/
  double timeout_s = 600;  ///< a started operation may take so long; 0: forever
  /// One call on storage may take so long (base/storage_wait.hpp); 0: forever.
  double storage_timeout_s = 1800;
  /// Called at the end with the exit code; empty: ends all ranks.
  std::function<void(int)> end;
};

/// A thread that looks at the recorder, and at what other threads wait for from storage. When an operation,
/// or a wait for storage, has been under way for longer than its timeout, this rank says what it waits for,
/// leaves its records, and gives the others a few seconds to do the same: those that do nothing look out for
/// the directory, once the run directory is there. The lowest rank that left records reads them all, names
/// the rank that diverged first, and all end with ExitCode::hang. Ranks talk through files alone, because
/// what hangs may be MPI or NCCL itself. Time in which this process was stopped does not count.
class Watchdog {
 public:
  /// Collective: agrees on the directory. Nothing is watched without a timeout; on one rank only storage.
  Watchdog(comm::World& world, WatchdogOptions options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The run directory is there: from here on this rank looks for the records of others. Before, a network
  /// file system would remember for a while that there is no run directory.
  void look_out() { looks_out_ = true; }

  /// Where this run's records would be.
  const std::string& dir() const { return dir_; }

 private:
  void loop();
  bool hangs(double awake_s);
  void end();
  void tell() noexcept;
  std::string leave_records();
  bool verdict_within(double seconds) const;
  bool speaks_for_all() const;
  void tell_verdict() const;
  void tell_missing(const std::string& waits_for) const;

  comm::World& world_;
  WatchdogOptions options_;
  std::string dir_;
  double least_timeout_s_;
  double look_s_;   ///< between two looks for the directory
  double grace_s_;  ///< from the first records to the verdict

  std::atomic<bool> looks_out_{false};
  std::optional<Look> look_;  ///< for the directory
  double looked_s_ = 0;       ///< when the last look began, as hangs() counts

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

/// The newest of a run's directories of records: RUN_DIR/hang/ID. Throws Error(bad_input) when there is none.
std::string newest_records(const std::string& run_dir);

}  // namespace weft::watch
