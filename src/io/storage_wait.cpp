#include "io/storage_wait.hpp"

#include <mutex>

#include "base/clock.hpp"

namespace weft::io {

/// All waits that are under way, the oldest first.
struct StorageWaits {
  std::mutex mutex;
  StorageWait* oldest = nullptr;
  StorageWait* newest = nullptr;

  void add(StorageWait& wait) {
    const std::lock_guard lock(mutex);
    wait.older_ = newest;
    (newest == nullptr ? oldest : newest->newer_) = &wait;
    newest = &wait;
  }
  void remove(StorageWait& wait) {
    const std::lock_guard lock(mutex);
    (wait.older_ == nullptr ? oldest : wait.older_->newer_) = wait.newer_;
    (wait.newer_ == nullptr ? newest : wait.newer_->older_) = wait.older_;
  }
  std::optional<OldestStorageWait> first() {
    const std::lock_guard lock(mutex);
    if (oldest == nullptr) return std::nullopt;
    return OldestStorageWait{std::string(oldest->what_), std::string(oldest->path_), oldest->since_};
  }
};

namespace {

/// The list of waits. It is never destroyed, because threads may wait while the process ends.
StorageWaits& waits() {
  static StorageWaits& all = *new StorageWaits;
  return all;
}

}  // namespace

StorageWait::StorageWait(std::string_view what, std::string_view path)
    : what_(what), path_(path), since_(seconds_now()) {
  waits().add(*this);
}

StorageWait::~StorageWait() {
  waits().remove(*this);
}

std::optional<OldestStorageWait> oldest_storage_wait() {
  return waits().first();
}

}  // namespace weft::io
