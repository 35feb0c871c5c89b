#include "io/new_directory.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.hpp"
#include "io/file.hpp"
#include "io/small_file.hpp"
#include "io/storage_wait.hpp"

namespace weft::io {

NewDirectory::NewDirectory(std::string path, std::string temporary)
    : path_(std::move(path)), temporary_(std::move(temporary)) {
  make_directories(temporary_);
}

NewDirectory::~NewDirectory() {
  std::error_code ignored;  // the earlier error is the one that counts
  if (!published_) std::filesystem::remove_all(temporary_, ignored);
}

bool NewDirectory::publish() {
  sync_directory_if_permitted(temporary_);
  const StorageWait wait("rename", path_);
  published_ = std::rename(temporary_.c_str(), path_.c_str()) == 0;
  // With ENOTDIR, a file has the name.
  const bool taken = !published_ && (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR);
  WEFT_SYSTEM(published_ || taken, "cannot make the directory {} ({}); choose another place for it", path_,
              std::strerror(errno));
  return published_;
}

void NewDirectory::sync() const {
  sync_name(path_);
}

}  // namespace weft::io
