// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

namespace weft::io {

/// Owns what open() returned. That is below 0 where open() failed; then it owns nothing.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace weft::io
