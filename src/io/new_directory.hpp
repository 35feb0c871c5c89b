// A directory that appears under its name only when all that belongs in it is there.
#pragma once

#include <string>

namespace weft::io {

/// The directory is made as `temporary`, filled there by its owner, and then renamed. Without publish() the
/// destructor removes it with all that is in it. Errors are Error(environment).
class NewDirectory {
 public:
  /// Makes `temporary`, which is on the same file system as `path`, and the directories above it that are
  /// missing. Neither path ends with a slash.
  NewDirectory(std::string path, std::string temporary);
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const std::string& temporary() const { return temporary_; }
  std::string file(const std::string& name) const { return temporary_ + "/" + name; }
  /// Syncs the directory, and gives it its name. Returns false when the name is taken already by anything but
  /// an empty directory. The caller syncs the files in it.
  bool publish();
  /// Makes the name durable; it is called after publish().
  void sync() const;

 private:
  std::string path_, temporary_;
  bool published_ = false;
};

}  // namespace weft::io
