// The watchdog ends a run in which a collective does not end, and says who was missing from it, in which
// storage does not answer, and says which file, or in which a library of channels has failed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/world.hpp"
#include "watch/look.hpp"

namespace weft::watch {

struct WatchdogOptions {
  std::string run_dir;     ///< the run directory of all ranks; records go to RUN_DIR/hang/ID/
  double timeout_s = 600;  ///< the most seconds for a call that has started; 0: any time
  /// The most seconds for one system call that waits for storage (io/storage_wait.hpp); 0: any time.
  double storage_timeout_s = 1800;
  /// Called at the end with the exit code; when it is empty, all ranks are ended.
  std::function<void(int)> end = {};
  /// What stands behind the host of each rank, in brackets, if it is not empty: its place on the mesh.
  std::vector<std::string> places = {};
};

/// A thread that looks at the recorder, and at what other threads wait for from storage. When a call,
/// or a wait for storage, has been under way for longer than its timeout, this rank says what it waits for,
/// leaves its records, and gives the others a few seconds to do the same. Ranks that wait for nothing look
/// for the directory of records, once the run directory is there. The lowest rank that left records reads
/// them all and names the rank that diverged first, and all end with ExitCode::hang. Ranks talk through files
/// alone, because what hangs may be MPI or NCCL itself. Time in which this process was stopped does not
/// count. While a call is under way it also asks World::failure(), and ends all ranks with
/// ExitCode::comm_failure when there is one.
class Watchdog {
 public:
  /// Collective: agrees on the directory of records. Without timeouts only failures are watched for, and on
  /// one rank only these and storage.
  Watchdog(comm::World& world, WatchdogOptions options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Call it when the run directory is there: from here on this rank looks for the records of others. Before,
  /// a network file system would remember for a while that there is no run directory.
  void look_out() { looks_out_ = true; }

  /// The directory in which this run's records would be; empty without timeouts.
  const std::string& dir() const { return dir_; }

 private:
  void loop();
  bool hangs(double awake_s);
  void end();
  void end_by_failure(const std::string& failure);
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
  double look_s_;   ///< seconds between two looks for the directory
  double grace_s_;  ///< seconds from the first records to the verdict

  std::atomic<bool> looks_out_{false};
  std::optional<Look> look_;  ///< looks for the directory; empty without timeouts
  double looked_s_ = 0;       ///< when the last look began, by the clock of hangs()

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

/// The newest directory of records of a run, RUN_DIR/hang/ID. Throws Error(bad_input) when there is none.
std::string newest_records(const std::string& run_dir);

}  // namespace weft::watch
