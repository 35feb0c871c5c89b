#include "io/atomic_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "io/file.hpp"
#include "io/storage_wait.hpp"

namespace weft::io {

AtomicFile::AtomicFile(std::string path, Named named)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), named_(named) {
  const StorageWait wait("open", temporary_);
  refuse_what_is_no_file();
  // With e, programs that this one starts do not inherit the file.
  file_ = std::fopen(temporary_.c_str(), "w+be");
  if (file_ == nullptr) fail("create", errno);
}

AtomicFile::~AtomicFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::append(const void* data, std::size_t bytes) {
  if (!at_end_ && std::fseek(file_, 0, SEEK_END) != 0) fail("write", errno);
  at_end_ = true;
  if (std::fwrite(data, 1, bytes, file_) != bytes) fail("write", errno);
}

void AtomicFile::write_front(const void* data, std::size_t bytes) {
  at_end_ = false;
  if (std::fseek(file_, 0, SEEK_SET) != 0 || std::fwrite(data, 1, bytes, file_) != bytes)
    fail("write", errno);
}

std::size_t AtomicFile::read(std::int64_t offset, void* out, std::size_t bytes) {
  at_end_ = false;
  if (std::fseek(file_, offset, SEEK_SET) != 0) fail("read", errno);
  const std::size_t got = std::fread(out, 1, bytes, file_);
  if (std::ferror(file_)) fail("read", errno);
  return got;
}

void AtomicFile::sync() {
  const StorageWait wait("fsync", temporary_);
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail("write", errno);
}

void AtomicFile::commit(Sync sync) {
  if (sync == Sync::yes) this->sync();
  {
    const StorageWait wait("close", temporary_);
    // The file is closed before the rename, because some file systems tell only here that what was written is
    // lost.
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("write", errno);
  }
  {
    const StorageWait wait("rename", path_);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("write", errno);
  }
  temporary_.clear();
  if (sync == Sync::yes) sync_name(path_);
}

/// Refuses a path that leads to no file before anything is written. The rename would put a file in the place
/// of a device or a pipe (as root, of /dev/null), and would fail on a directory only after all the work for
/// the content.
void AtomicFile::refuse_what_is_no_file() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  if (S_ISDIR(status.st_mode)) fail("write", EISDIR);
  fail("write", EISDIR, "it is a device or a pipe, not a file");
}

void AtomicFile::fail(const char* what, int error) const {
  fail(what, error, std::strerror(error));
}

void AtomicFile::fail(const char* what, int error, const char* why) const {
  const bool users = named_ == Named::by_user;
  throw Error(users ? exit_code_of_named_file(error) : ExitCode::environment,
              fmt::format("cannot {} {} ({}); {}", what, path_, why,
                          users ? "check the directory, its permissions and its free space"
                                : "free some space, or choose another run.dir"));
}

}  // namespace weft::io
