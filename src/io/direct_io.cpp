#include "io/direct_io.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/storage_wait.hpp"

namespace weft::io {

namespace {

// The size of one transfer, large enough that one after the other keeps storage busy.
constexpr std::size_t piece_bytes = std::size_t{8} << 20;

/// Calls `move(done, n)` for one piece after the other, until all is done or a call does not move a block.
template <class Move>
std::size_t by_pieces(std::size_t bytes, Move&& move) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = move(done, std::min(bytes - done, piece_bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < static_cast<ssize_t>(DirectIo::block_bytes)) break;
    done += static_cast<std::size_t>(n) / DirectIo::block_bytes * DirectIo::block_bytes;
  }
  return done;
}

}  // namespace

std::unique_ptr<DirectIo> DirectIo::open(const std::string& path, For use) {
  const StorageWait wait("open", path);
  const int fd = ::open(path.c_str(), (use == For::writing ? O_WRONLY : O_RDONLY) | O_DIRECT | O_CLOEXEC);
  if (fd < 0) return nullptr;
  // The memory is not from malloc: a block of that size, once given back, would let malloc keep other large
  // blocks.
  void* memory = mmap(nullptr, piece_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    ::close(fd);
    return nullptr;
  }
  return std::unique_ptr<DirectIo>(new DirectIo(path, fd, static_cast<char*>(memory)));
}

DirectIo::~DirectIo() {
  const StorageWait wait("close", path_);
  ::close(fd_);
  munmap(memory_, piece_bytes);
}

std::size_t DirectIo::write(const char* from, std::size_t bytes, std::int64_t offset) {
  return by_pieces(bytes, [&](std::size_t done, std::size_t n) {
    std::memcpy(memory_, from + done, n);
    const StorageWait wait("write", path_);
    return ::pwrite(fd_, memory_, n, offset + static_cast<std::int64_t>(done));
  });
}

std::size_t DirectIo::read(char* to, std::size_t bytes, std::int64_t offset) {
  return by_pieces(bytes, [&](std::size_t done, std::size_t n) {
    const StorageWait wait("read", path_);
    const ssize_t got = ::pread(fd_, memory_, n, offset + static_cast<std::int64_t>(done));
    if (got > 0) std::memcpy(to + done, memory_, static_cast<std::size_t>(got));
    return got;
  });
}

}  // namespace weft::io
