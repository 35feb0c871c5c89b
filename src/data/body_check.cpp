#include "data/body_check.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "data/token_format.hpp"
#include "io/storage_wait.hpp"

namespace weft::data {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), fd_(open(path)) {
    WEFT_SYSTEM(fd_ >= 0, "cannot open the token file {} ({}); start again when it can be read", path_,
                std::strerror(errno));
  }
  ~Reader() { ::close(fd_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  int fd() const { return fd_; }

  /// Reads exactly `bytes`; the file is known to be long enough.
  void read(std::byte* to, std::size_t bytes, std::int64_t offset) const {
    while (bytes > 0) {
      const ssize_t n = read_some(to, bytes, offset);
      if (n < 0 && errno == EINTR) continue;
      WEFT_SYSTEM(n >= 0, "cannot read the token file {} ({}); start again when it can be read", path_,
                  std::strerror(errno));
      WEFT_VALIDATE(n > 0, "the token file {} has become shorter (it ends at byte {}); copy it again", path_,
                    offset);
      to += n;
      bytes -= static_cast<std::size_t>(n);
      offset += n;
    }
  }

 private:
  static int open(const std::string& path) {
    const io::StorageWait wait("open", path);
    return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ssize_t read_some(std::byte* to, std::size_t bytes, std::int64_t offset) const {
    const io::StorageWait wait("read", path_);
    return ::pread(fd_, to, bytes, offset);
  }

  const std::string& path_;
  int fd_;
};

}  // namespace

bool check_body(const TokenFile& file, const std::function<bool(std::int64_t bytes)>& goes_on) {
  const Reader reader(file.path());
  WEFT_VALIDATE(
      storage_identity(reader.fd(), file.path()) == file.identity(),
      "the token file {} has been replaced since this run opened it; leave it as it is until the run ends",
      file.path());
  std::vector<std::byte> piece(hash_piece);
  std::uint64_t hash = 0;
  const std::int64_t end = file.bytes();
  for (std::int64_t at = sizeof(TokenHeader); at < end;) {
    const auto n = static_cast<std::size_t>(std::min<std::int64_t>(hash_piece, end - at));
    reader.read(piece.data(), n, at);
    hash = hash_bytes(piece.data(), n, hash);
    at += static_cast<std::int64_t>(n);
    if (!goes_on(at)) return false;
  }
  WEFT_VALIDATE(hash == file.body_hash(),
                "the token file {} is damaged (the checksum of its body is wrong); copy it again",
                file.path());
  return true;
}

}  // namespace weft::data
