// A file that records are appended to, whole or not at all. Metrics and TensorBoard events are written
// through it.
#pragma once

#include <string>
#include <string_view>

namespace weft::io {

/// Each record reaches the kernel in one write before append() returns, so it outlives this process. A full
/// disk does not end a run: the part that was written is taken back, one warning is logged, and later records
/// are tried again.
class AppendFile {
 public:
  /// Opens `path` for appending, creating it. Throws Error(environment) when that fails.
  explicit AppendFile(const std::string& path);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  void append(std::string_view record);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
  bool warned_ = false;
};

}  // namespace weft::io
