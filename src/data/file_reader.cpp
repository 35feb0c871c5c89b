#include "data/file_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/check.hpp"
#include "io/storage_wait.hpp"

namespace weft::data {
namespace {

int open_for_reading(const std::string& path) {
  const io::StorageWait wait("open", path);
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

ssize_t read_some(int fd, std::byte* to, std::size_t bytes, std::int64_t offset, const std::string& path) {
  const io::StorageWait wait("read", path);
  return ::pread(fd, to, bytes, offset);
}

}  // namespace

FileReader::FileReader(std::string what, std::string path, io::Named named)
    : what_(std::move(what)), path_(std::move(path)), file_(open_for_reading(path_)) {
  if (file_.get() >= 0) return;
  const ExitCode code = named == io::Named::by_user ? exit_code_of_named_file(errno) : ExitCode::environment;
  throw Error(code, fmt::format("cannot open the {} {} ({}); {}", what_, path_, std::strerror(errno),
                                code == ExitCode::bad_input ? "check the path and who may read it"
                                                            : "start again when it can be read"));
}

std::int64_t FileReader::size() const {
  struct stat status {};
  WEFT_SYSTEM(::fstat(file_.get(), &status) == 0,
              "cannot look at the {} {} ({}); start again when it can be read", what_, path_,
              std::strerror(errno));
  WEFT_VALIDATE(S_ISREG(status.st_mode), "the {} {} is not a regular file; name a file", what_, path_);
  return status.st_size;
}

void FileReader::read(void* to, std::size_t bytes, std::int64_t offset) const {
  for (auto* at = static_cast<std::byte*>(to); bytes > 0;) {
    const ssize_t n = read_some(file_.get(), at, bytes, offset, path_);
    if (n < 0 && errno == EINTR) continue;
    WEFT_SYSTEM(n >= 0, "cannot read the {} {} ({}); start again when it can be read", what_, path_,
                std::strerror(errno));
    WEFT_VALIDATE(n > 0, "the {} {} has become shorter (it ends at byte {}); copy it again", what_, path_,
                  offset);
    at += n;
    bytes -= static_cast<std::size_t>(n);
    offset += n;
  }
}

std::string FileReader::beginning(std::size_t most) const {
  std::string bytes(std::min(most, static_cast<std::size_t>(size())), '\0');
  read(bytes.data(), bytes.size(), 0);
  return bytes;
}

std::optional<std::string> beginning_of(const std::string& path, std::size_t most) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none) || std::filesystem::file_size(path, none) == 0)
    return std::nullopt;
  std::string bytes(most, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(most));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace weft::data
