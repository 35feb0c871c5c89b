// Transfers that leave out the page cache (O_DIRECT): no core's time goes into copies to it, nothing else is
// pushed out of it, and what is read comes from storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace weft::io {

/// A file that exists, opened once more. Its calls move whole blocks of a file, through memory of its own,
/// and never fail: they return how many of `bytes` they moved, a multiple of block_bytes, and what is left
/// is for a transfer through the cache, which finds the error if there is one.
class DirectIo {
 public:
  /// Offsets and lengths are multiples of this; no storage in use has larger blocks.
  static constexpr std::size_t block_bytes = 4096;

  enum class For { writing, reading };
  /// Opens the file; null where the file system has no such transfers.
  static std::unique_ptr<DirectIo> open(const std::string& path, For use);
  ~DirectIo();
  DirectIo(const DirectIo&) = delete;
  DirectIo& operator=(const DirectIo&) = delete;

  std::size_t write(const char* from, std::size_t bytes, std::int64_t offset);
  std::size_t read(char* to, std::size_t bytes, std::int64_t offset);

 private:
  DirectIo(std::string path, int fd, char* memory) : path_(std::move(path)), fd_(fd), memory_(memory) {}

  std::string path_;
  int fd_;
  char* memory_;
};

}  // namespace weft::io
