#include "io/small_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "io/descriptor.hpp"

namespace weft::io {
namespace {

/// Whether `path` is a directory; errno says why not.
bool is_directory(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  errno = ENOTDIR;
  return S_ISDIR(status.st_mode);
}

}  // namespace

std::optional<std::string> read_if_there(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return std::nullopt;
  WEFT_SYSTEM(file.get() >= 0, "cannot open {} ({}); see to its file system", path, std::strerror(errno));
  std::string text;
  std::array<char, std::size_t{1} << 16> piece;
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    WEFT_SYSTEM(n >= 0, "cannot read {} ({}); see to its file system", path, std::strerror(errno));
    if (n == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(n));
  }
}

void replace_file(const std::string& path, std::string_view text, Named named, Sync sync) {
  AtomicFile file(path, named);
  file.append(text.data(), text.size());
  file.commit(sync);
}

void make_directories(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    // When the directory lies in one that is read-only, the system may give another errno than EEXIST
    // although it is there.
    const bool made = ::mkdir(part.c_str(), 0777) == 0;
    const int why = errno;
    WEFT_SYSTEM(made || is_directory(part), "cannot make the directory {} ({}); choose a writable directory",
                part, std::strerror(why == EEXIST ? errno : why));
    if (end == std::string::npos) return;
  }
}

}  // namespace weft::io
