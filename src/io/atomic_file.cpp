#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.hpp"

namespace weft::io {
namespace {

/// Makes a rename durable. A file system that cannot sync a directory says EINVAL, which is no loss.
bool sync_directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) return false;
  const bool synced = ::fsync(fd) == 0 || errno == EINVAL;
  ::close(fd);
  return synced;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  file_ = std::fopen(temporary_.c_str(), "w+b");
  if (!file_) fail("create");
}

AtomicFile::~AtomicFile() {
  if (!file_) return;
  std::fclose(file_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::append(const void* data, std::size_t bytes) {
  if (!at_end_ && std::fseek(file_, 0, SEEK_END) != 0) fail("write");
  at_end_ = true;
  if (std::fwrite(data, 1, bytes, file_) != bytes) fail("write");
}

void AtomicFile::write_front(const void* data, std::size_t bytes) {
  at_end_ = false;
  if (std::fseek(file_, 0, SEEK_SET) != 0 || std::fwrite(data, 1, bytes, file_) != bytes) fail("write");
}

std::size_t AtomicFile::read(std::int64_t offset, void* out, std::size_t bytes) {
  at_end_ = false;
  if (std::fseek(file_, offset, SEEK_SET) != 0) fail("read");
  const std::size_t got = std::fread(out, 1, bytes, file_);
  if (std::ferror(file_)) fail("read");
  return got;
}

void AtomicFile::commit() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) fail("write");
  std::FILE* file = file_;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename to");
  file_ = nullptr;
  if (std::fclose(file) != 0 || !sync_directory_of(path_)) fail("sync");
}

void AtomicFile::fail(const char* what) const {
  throw Error(exit_code_of_named_file(errno),
              fmt::format("cannot {} {} ({}); check the directory, its permissions and its free space", what,
                          path_, std::strerror(errno)));
}

}  // namespace weft::io
