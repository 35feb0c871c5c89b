#include "io/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.hpp"
#include "io/descriptor.hpp"
#include "io/storage_wait.hpp"

namespace weft::io {

void fail_errno(std::string_view what, std::string_view path, int error) {
  throw Error(ExitCode::environment, fmt::format("cannot {} {} ({})", what, path, std::strerror(error)));
}

namespace {

bool is_missing(int error) {
  return error == ENOENT || error == ENOTDIR;
}

// Linux moves at most this many bytes in one call; asking for more is not an error, but not portable either.
constexpr std::size_t max_transfer = std::size_t{1} << 30;

// A smaller transfer takes less time through the cache than one that waits for storage.
constexpr std::size_t least_direct_bytes = std::size_t{256} << 10;

/// Moves the whole blocks of a transfer by `direct(begin, bytes)`, which returns how many bytes it could
/// move, and the rest by `cached(begin, bytes)`.
template <class DirectPart, class CachedPart>
void move_in_parts(std::size_t bytes, std::int64_t offset, DirectPart&& direct, CachedPart&& cached) {
  constexpr std::size_t block = DirectIo::block_bytes;
  const std::size_t head = (block - static_cast<std::size_t>(offset) % block) % block;
  cached(0, head);
  const std::size_t done = head + direct(head, (bytes - head) / block * block);
  cached(done, bytes - done);
}

}  // namespace

void fail_reading(std::string_view what, std::string_view path, int error) {
  const std::string problem = fmt::format("cannot {} {} ({})", what, path, std::strerror(error));
  if (is_missing(error)) throw Incomplete(problem + "; restore it");
  throw Unreadable(problem + "; try again when it can be read");
}

std::optional<std::int64_t> file_bytes(const std::string& path) {
  const StorageWait wait("stat", path);
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISREG(status.st_mode)) return status.st_size;
    return std::nullopt;
  }
  if (!is_missing(errno)) fail_reading("stat", path, errno);
  return std::nullopt;
}

File::File(std::string path, Open open) : path_(std::move(path)), open_(open) {
  const StorageWait wait("open", path_);
  const int flags = open == Open::create ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY;
  fd_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0666);
  if (fd_ >= 0) return;
  if (open == Open::create) fail_errno("create", path_, errno);
  fail_reading("open", path_, errno);
}

File::~File() {
  const StorageWait wait("close", path_);
  if (fd_ >= 0) ::close(fd_);
}

void File::avoid_cache() {
  direct_ = DirectIo::open(path_, open_ == Open::create ? DirectIo::For::writing : DirectIo::For::reading);
}

void File::write_at(const void* data, std::size_t bytes, std::int64_t offset) {
  const char* from = static_cast<const char*>(data);
  if (!direct_ || bytes < least_direct_bytes) return write_cached(from, bytes, offset);
  move_in_parts(
      bytes, offset,
      [&](std::size_t begin, std::size_t n) {
        return direct_->write(from + begin, n, offset + static_cast<std::int64_t>(begin));
      },
      [&](std::size_t begin, std::size_t n) {
        write_cached(from + begin, n, offset + static_cast<std::int64_t>(begin));
      });
}

void File::read_at(void* data, std::size_t bytes, std::int64_t offset) const {
  char* to = static_cast<char*>(data);
  if (!direct_ || bytes < least_direct_bytes) return read_cached(to, bytes, offset);
  move_in_parts(
      bytes, offset,
      [&](std::size_t begin, std::size_t n) {
        return direct_->read(to + begin, n, offset + static_cast<std::int64_t>(begin));
      },
      [&](std::size_t begin, std::size_t n) {
        read_cached(to + begin, n, offset + static_cast<std::int64_t>(begin));
      });
}

void File::write_cached(const char* from, std::size_t bytes, std::int64_t offset) {
  const StorageWait wait("write", path_);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, from, std::min(bytes, max_transfer), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_errno("write", path_, n < 0 ? errno : ENOSPC);
    from += n;
    bytes -= static_cast<std::size_t>(n);
    offset += n;
  }
}

void File::begin_sync(std::int64_t offset, std::size_t bytes) const {
  const StorageWait wait("write", path_);
  ::sync_file_range(fd_, offset, static_cast<off64_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

void File::read_cached(char* to, std::size_t bytes, std::int64_t offset) const {
  const StorageWait wait("read", path_);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd_, to, std::min(bytes, max_transfer), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_reading("read", path_, errno);
    if (n == 0)
      throw Incomplete(
          fmt::format("{} is truncated (it ends at byte {}, {} more are expected)", path_, offset, bytes));
    to += n;
    bytes -= static_cast<std::size_t>(n);
    offset += n;
  }
}

std::int64_t File::next_data(std::int64_t offset) const {
  const StorageWait wait("seek", path_);
  const off_t next = ::lseek(fd_, offset, SEEK_DATA);
  if (next >= 0) return next;
  return errno == ENXIO ? size() : offset;  // not every file system tells where its holes are
}

std::int64_t File::size() const {
  const StorageWait wait("stat", path_);
  struct stat status;
  if (::fstat(fd_, &status) != 0) fail_reading("stat", path_, errno);
  return status.st_size;
}

void File::resize(std::int64_t bytes) {
  const StorageWait wait("resize", path_);
  if (::ftruncate(fd_, bytes) != 0) fail_errno("resize", path_, errno);
}

void File::sync() {
  const StorageWait wait("fsync", path_);
  if (::fsync(fd_) != 0) fail_errno("fsync", path_, errno);
}

void File::drop_cache() const {
  const StorageWait wait("fadvise", path_);
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

void File::close() {
  const StorageWait wait("close", path_);
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail_errno("close", path_, errno);
}

namespace {

/// The call that the system refused, and its errno; 0 when it refused none.
struct Refusal {
  const char* call;
  int error;
};

Refusal try_to_sync_directory(const std::string& path) {
  const StorageWait wait("fsync", path);
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return {"open", errno};
  return {"fsync", ::fsync(directory.get()) == 0 ? 0 : errno};
}

}  // namespace

void sync_directory(const std::string& path) {
  const Refusal refusal = try_to_sync_directory(path);
  if (refusal.error != 0) fail_errno(refusal.call, path, refusal.error);
}

bool sync_directory_if_permitted(const std::string& path) {
  const Refusal refusal = try_to_sync_directory(path);
  switch (refusal.error) {
    case 0: return true;
    case EACCES:
    case EPERM:
    case EROFS:
    case EINVAL: return false;
    default: fail_errno(refusal.call, path, refusal.error);
  }
}

void sync_name(const std::string& path) {
  const auto slash = path.rfind('/');
  sync_directory_if_permitted(slash == std::string::npos ? "." : path.substr(0, slash + 1));
}

std::int64_t free_bytes_of(std::uint64_t blocks, std::uint64_t available, std::uint64_t block_bytes) {
  std::int64_t bytes = 0;
  const bool too_many = __builtin_mul_overflow(available, block_bytes, &bytes);
  return blocks == 0 || too_many ? INT64_MAX : bytes;
}

std::int64_t free_bytes(const std::string& path) {
  const StorageWait wait("statvfs", path);
  struct statvfs status;
  if (::statvfs(path.c_str(), &status) != 0) fail_errno("statvfs", path, errno);
  return free_bytes_of(status.f_blocks, status.f_bavail, status.f_frsize);
}

std::string read_text(const std::string& path) {
  const File file(path, File::Open::read);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(text.data(), text.size(), 0);
  return text;
}

void write_text_durably(const std::string& path, std::string_view text) {
  File file(path, File::Open::create);
  file.write_at(text.data(), text.size(), 0);
  file.sync();
  file.close();
}

std::string base_name(const std::string& path) {
  const std::filesystem::path p(path);
  return p.has_filename() ? p.filename().string() : p.parent_path().filename().string();
}

}  // namespace weft::io
