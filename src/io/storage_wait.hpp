// Keeps what this process's threads wait for from storage, so that a watchdog can name the file that does not
// answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::io {

/// Says, as long as it lives, that the calling thread waits for storage. `what` is a string literal
/// ("fsync"); `path` has to outlive the object.
class StorageWait {
 public:
  StorageWait(std::string_view what, std::string_view path);
  ~StorageWait();
  StorageWait(const StorageWait&) = delete;
  StorageWait& operator=(const StorageWait&) = delete;

 private:
  friend struct StorageWaits;
  std::string_view what_, path_;
  double since_;
  StorageWait* older_ = nullptr;
  StorageWait* newer_ = nullptr;
};

struct OldestStorageWait {
  std::string what;
  std::string path;
  double since = 0;  ///< when it began, by seconds_now()
};
/// The wait that has lasted longest, of all threads; nothing when none waits. It may be called on any thread.
std::optional<OldestStorageWait> oldest_storage_wait();

}  // namespace weft::io
