// Makes sure that one run at a time writes to a run directory, and that a dead one does not keep others out.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace weft::job {

/// The file DIR/lock, for as long as this object lives. Three things tell a living owner from one that was
/// killed:
/// - The kernel's lock on the file ends with the process. While somebody holds it, nothing is taken over. A
///   free one tells nothing, because some file systems know no locks.
/// - The file names the process. One of this host, and of this container, is looked for by its number and its
///   start time.
/// - The file's time tells about all other owners; a thread refreshes it.
/// The file appears with its content, by a rename or link that fails when there is one already. A dead run's
/// file is moved aside first, and moved back when it turns out to be another one, because somebody was
/// quicker.
class RunLock {
 public:
  struct Timing {
    std::chrono::milliseconds beat{15'000};  ///< between two refreshes
    /// An owner on another host that has not refreshed it for so long is dead.
    std::chrono::milliseconds stale{120'000};
  };
  /// Called by the thread, once, when the file has become another run's: this run was taken for dead (its
  /// host stood still), or its user removed the file. It must no longer write.
  using Lost = std::function<void(const std::string& why)>;

  /// Takes the lock. Throws Error(bad_input) with one line about the owner when a living one has it, and
  /// Error(environment) when the file cannot be written or read. Waits up to Timing::stale for a sign of life
  /// from another host.
  RunLock(const std::string& dir, Lost lost, Timing timing);
  RunLock(const std::string& dir, Lost lost) : RunLock(dir, std::move(lost), Timing{}) {}
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Call it when the directory was renamed.
  void moved_to(const std::string& dir);
  /// The content of the lock file.
  const std::string& text() const { return text_; }
  /// A line for the log about the dead run whose lock was taken over; empty when there was none.
  const std::string& note() const { return note_; }

 private:
  void write_own();
  bool place();
  void settle();
  bool shows_life(const std::string& text, const std::string& who) const;
  std::chrono::milliseconds silence() const;
  void remove(const std::string& text) const;
  bool is_mine() const;
  void beat();
  std::string taken_by();
  void attempt(const std::function<void()>& part);

  std::string dir_, path_, own_;  ///< own_: the name under which the file is written
  std::string text_;              ///< its content
  std::string note_;
  Lost lost_;
  Timing timing_;
  int fd_ = -1;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  bool warned_ = false;
  std::thread thread_;
};

}  // namespace weft::job
