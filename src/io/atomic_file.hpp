// A file that appears under its name only when it is whole: written beside it as NAME.tmp, synced, then
// renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace weft::io {

/// Every call throws Error(bad_input or environment, by errno) with the path and the system's reason, for
/// example a full disk. Without commit() nothing is left under `path`: the destructor removes the temporary
/// file.
class AtomicFile {
 public:
  /// Creates PATH.tmp, replacing an old one.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(const void* data, std::size_t bytes);
  /// Writes over the first bytes; appending goes on at the end.
  void write_front(const void* data, std::size_t bytes);
  /// Reads up to `bytes` from `offset` on, and returns how many there were.
  std::size_t read(std::int64_t offset, void* out, std::size_t bytes);
  /// Syncs the file, renames it to its name, syncs the directory.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  bool at_end_ = true;  ///< where the next byte would go; a needless seek would empty the stream's buffer
};

}  // namespace weft::io
