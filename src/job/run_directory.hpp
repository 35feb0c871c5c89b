// A run's directory, which one run holds, and which is never half made.
#pragma once

#include <optional>
#include <string>

#include "job/run_lock.hpp"

namespace weft::job {

/// Locks and makes the directory, on rank 0. The lock is removed when the object ends.
class RunDirectory {
 public:
  /// Locks `dir` if it exists, and changes nothing else there: the deck may prove wrong later, and the
  /// directory may be another run's. Throws Error(bad_input) when a living run has it, or when there is a
  /// file in its place or above it; and Error(environment) when storage does not say whether it exists.
  RunDirectory(const std::string& dir, RunLock::Lost lost);

  /// Writes the resolved deck. Where there was no directory, it appears with deck and lock in it, by one
  /// rename. Throws Error(environment) when that fails, and Error(bad_input) when another run was quicker.
  void write(const std::string& deck);
  /// What DIR/lock holds; by it other ranks can see that they look at the same directory.
  std::string mark() const { return lock_ ? lock_->text() : std::string(); }
  /// What RunLock::note() says.
  std::string note() const { return lock_ ? lock_->note() : std::string(); }

 private:
  void make(const std::string& deck);

  std::string dir_;
  RunLock::Lost lost_;
  std::optional<RunLock> lock_;
};

}  // namespace weft::job
