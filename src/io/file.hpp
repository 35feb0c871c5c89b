// Plain files, and the fsyncs that make them durable. Errors have the path and errno's text: what cannot be
// written is Error(environment), what is not there or ends too early Incomplete, and what the system refuses
// to read Unreadable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "io/direct_io.hpp"

namespace weft::io {

/// The system refused to open, read or look at a file that is there: an I/O error, no permission, too many
/// open files; or the checkpoint is of a newer format than this program's. It says nothing about the
/// checkpoint's bytes, so that nobody may take it for damage, remove the checkpoint for it, or go back to an
/// older one.
class Unreadable : public Error {
 public:
  explicit Unreadable(const std::string& message) : Error(ExitCode::bad_checkpoint, message) {}
};

/// A file is not there, or has another length than it must have.
class Incomplete : public Error {
 public:
  explicit Incomplete(const std::string& message) : Error(ExitCode::bad_checkpoint, message) {}
};

/// An open file. Reads and writes are positioned, loop over partial transfers, and block.
class File {
 public:
  enum class Open { create, read };  ///< `create` makes a new file, or empties an old one, for writing

  File(std::string path, Open open);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// From here on the whole blocks of large transfers leave out the page cache, if the file system has that.
  void avoid_cache();
  void write_at(const void* data, std::size_t bytes, std::int64_t offset);
  /// Has the system begin to write these bytes to storage, so that sync() finds less left; a hint.
  void begin_sync(std::int64_t offset, std::size_t bytes) const;
  /// Reads exactly `bytes` from `offset` on. Throws Incomplete when the file ends before `offset + bytes`.
  void read_at(void* data, std::size_t bytes, std::int64_t offset) const;
  /// The first byte from `offset` on that is in no hole of the file; its size when there is none.
  std::int64_t next_data(std::int64_t offset) const;
  std::int64_t size() const;
  void resize(std::int64_t bytes);
  void sync();              ///< fsync: the bytes are on storage when it returns
  void drop_cache() const;  ///< later reads come from storage, where the file system heeds the advice
  void close();             ///< network file systems may report a failed write only here

 private:
  void write_cached(const char* from, std::size_t bytes, std::int64_t offset);
  void read_cached(char* to, std::size_t bytes, std::int64_t offset) const;

  std::string path_;
  Open open_;
  int fd_;
  std::unique_ptr<DirectIo> direct_;
};

/// Ends a write that the system refused: Error(environment).
[[noreturn]] void fail_errno(std::string_view what, std::string_view path, int error);
/// Ends a read that the system refused: Incomplete when there is no such file, else Unreadable.
[[noreturn]] void fail_reading(std::string_view what, std::string_view path, int error);
/// The bytes of a regular file; nothing when there is none of this name. Throws Unreadable.
std::optional<std::int64_t> file_bytes(const std::string& path);
/// Makes entries that were created, renamed or removed in a directory durable.
void sync_directory(const std::string& path);
/// Does what sync_directory() does, but returns false where the directory is another user's, or on a file
/// system that is mounted for reading only.
bool sync_directory_if_permitted(const std::string& path);
/// Makes the name of a file or a directory durable that was just created or renamed, where that is permitted
/// and the file system can; `path` does not end with a slash.
void sync_name(const std::string& path);
/// Bytes that an unprivileged user may still write on the file system of `path`; INT64_MAX where it does not
/// tell.
std::int64_t free_bytes(const std::string& path);
/// What free_bytes() returns where statvfs says that the file system has `blocks` blocks, and an unprivileged
/// user may write `available` of `block_bytes` bytes each. A file system without blocks (ramfs, some of FUSE)
/// does not tell.
std::int64_t free_bytes_of(std::uint64_t blocks, std::uint64_t available, std::uint64_t block_bytes);
std::string read_text(const std::string& path);
void write_text_durably(const std::string& path, std::string_view text);
/// The last component of a path, for messages.
std::string base_name(const std::string& path);

}  // namespace weft::io
