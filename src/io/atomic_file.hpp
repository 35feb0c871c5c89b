// A file that appears under its name only when it is whole. It is written beside it as NAME.tmp, synced, and
// then renamed. All that Weft replaces or writes as a whole goes through here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace weft::io {

/// Who chose the path, and so whose mistake it is when the system refuses to write there (docs/errors.md).
enum class Named {
  by_user,  ///< exit_code_of_named_file() decides: a directory that is not there is the user's mistake
  by_weft   ///< the path is below run.dir: whatever is refused is the machine's mistake
};

/// Whether a write waits until its bytes and its name are on storage. Without that the file outlives this
/// process, but perhaps not its machine; what others see under the name is whole either way.
enum class Sync { yes, no };

/// Every call throws Error(bad_input or environment, see Named) with the path and the system's reason, for
/// example a full disk. Without commit() what was at `path` stays as it was, and the destructor removes the
/// temporary file. A path that leads to something else than a file (a directory, a device, a pipe) is
/// refused.
class AtomicFile {
 public:
  /// Creates PATH.tmp, replacing an old one.
  AtomicFile(std::string path, Named named);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(const void* data, std::size_t bytes);
  /// Writes over the first bytes; appending goes on at the end.
  void write_front(const void* data, std::size_t bytes);
  /// Reads up to `bytes` from `offset` on, and returns how many there were.
  std::size_t read(std::int64_t offset, void* out, std::size_t bytes);
  /// Brings what was written to storage, still under the temporary name: several files can then be committed
  /// together.
  void sync();
  /// Syncs and closes the file, renames it to its name, and syncs the directory. Nothing may be called after
  /// it.
  void commit(Sync sync = Sync::yes);

 private:
  void refuse_what_is_no_file() const;
  [[noreturn]] void fail(const char* what, int error) const;
  [[noreturn]] void fail(const char* what, int error, const char* why) const;

  std::string path_;
  std::string temporary_;  ///< empty once the file has its name
  Named named_;
  std::FILE* file_ = nullptr;
  bool at_end_ = true;  ///< where the next byte would go; a needless seek would empty the stream's buffer
};

}  // namespace weft::io
