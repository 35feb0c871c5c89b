#include "comm/host/shared_segment.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

namespace weft::comm::detail {

SharedSegment::SharedSegment(int fd, std::string name, bool owns_name)
    : fd_(fd), name_(std::move(name)), owns_name_(owns_name) {}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      name_(std::move(other.name_)),
      owns_name_(std::exchange(other.owns_name_, false)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(name_, other.name_);
  std::swap(owns_name_, other.owns_name_);
  return *this;
}

SharedSegment::~SharedSegment() {
  forget_name();
  if (fd_ >= 0) ::close(fd_);
}

std::optional<SharedSegment> SharedSegment::create(std::int64_t bytes) {
  static std::atomic<int> made{0};
  const std::string stem = fmt::format("/weft-{}-{}", ::getpid(), made++);
  // Containers may share /dev/shm but not the numbers of processes, and a process that was killed may have
  // left a name.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::string name = fmt::format("{}-{}", stem, attempt);
    const int fd = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return std::nullopt;
    SharedSegment segment(fd, name, true);
    if (::ftruncate(fd, bytes) != 0) return std::nullopt;
    return segment;
  }
  return std::nullopt;
}

std::optional<SharedSegment> SharedSegment::open(const std::string& name) {
  const int fd = ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  return SharedSegment(fd, name, false);
}

void SharedSegment::forget_name() {
  if (std::exchange(owns_name_, false)) ::shm_unlink(name_.c_str());
}

bool SharedSegment::reserve(std::int64_t offset, std::int64_t bytes) const {
  if (bytes == 0) return true;
  int code = EINTR;
  while (code == EINTR) code = ::posix_fallocate(fd_, offset, bytes);
  return code == 0;
}

bool SharedSegment::leaves(std::int64_t bytes) const {
  struct statvfs status {};
  if (::fstatvfs(fd_, &status) != 0) return false;
  // Zero blocks in all are a file system without a limit.
  return status.f_blocks == 0 || status.f_bavail * status.f_frsize >= static_cast<std::uint64_t>(bytes);
}

std::byte* SharedSegment::map(std::byte* address, std::int64_t offset, std::int64_t bytes) const {
  void* const there = ::mmap(address, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                             MAP_SHARED | (address != nullptr ? MAP_FIXED : 0), fd_, offset);
  return there == MAP_FAILED ? nullptr : static_cast<std::byte*>(there);
}

AddressRange::AddressRange(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes + huge_page_bytes)) {
  void* const there = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (there == MAP_FAILED) return;
  mapped_ = static_cast<std::byte*>(there);
  const auto behind = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(mapped_)) % huge_page_bytes;
  begin_ = mapped_ + (huge_page_bytes - behind) % huge_page_bytes;
}

AddressRange::AddressRange(AddressRange&& other) noexcept
    : mapped_(std::exchange(other.mapped_, nullptr)),
      begin_(std::exchange(other.begin_, nullptr)),
      bytes_(other.bytes_) {}

AddressRange::~AddressRange() {
  if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
}

}  // namespace weft::comm::detail
