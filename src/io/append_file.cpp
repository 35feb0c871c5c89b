#include "io/append_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"

namespace weft::io {

AppendFile::AppendFile(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  WEFT_SYSTEM(fd_ >= 0, "cannot open {} ({}); choose a writable run.dir", path, std::strerror(errno));
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), warned_(other.warned_) {}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::append(std::string_view record) {
  const off_t before = ::lseek(fd_, 0, SEEK_END);
  std::string_view rest = record;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  if (rest.empty()) return;
  const std::string why = std::strerror(errno);
  // The torn record is taken back, because it would spoil every later one.
  const bool restored = rest.size() == record.size() || ::ftruncate(fd_, before) == 0;
  if (!std::exchange(warned_, true))
    log::warn("cannot append to {} ({}){}; the run goes on without these records", path_, why,
              restored ? "" : " and its last record is torn");
}

}  // namespace weft::io
