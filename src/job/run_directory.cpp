#include "job/run_directory.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.hpp"
#include "io/small_file.hpp"
#include "job/run_owner.hpp"

namespace weft::job {
namespace {

namespace fs = std::filesystem;

void write_deck(const std::string& dir, const std::string& deck) {
  io::replace_file(dir + "/deck.toml", deck);
}

}  // namespace

RunDirectory::RunDirectory(const std::string& dir, RunLock::Lost lost) : dir_(dir), lost_(std::move(lost)) {
  while (dir_.size() > 1 && dir_.ends_with('/')) dir_.pop_back();
  std::error_code error;
  const bool there = fs::exists(dir_, error);
  WEFT_SYSTEM(!error, "cannot look for the run directory {} ({}); see to its file system, then start again",
              dir_, error.message());
  if (there) lock_.emplace(dir_, lost_);
}

void RunDirectory::write(const std::string& deck) {
  if (lock_) {
    write_deck(dir_, deck);
  } else {
    make(deck);
  }
}

void RunDirectory::make(const std::string& deck) {
  const fs::path dir = fs::absolute(dir_);
  const RunOwner me = this_process();
  const fs::path temporary =
      dir.parent_path() / fmt::format(".{}.{}.{}.tmp", dir.filename().string(), me.host, me.pid);
  io::make_directories(temporary.string());
  try {
    lock_.emplace(temporary.string(), lost_);
    write_deck(temporary.string(), deck);
    if (std::rename(temporary.c_str(), dir.c_str()) == 0) return lock_->moved_to(dir_);
    const int why = errno;
    WEFT_SYSTEM(why == EEXIST || why == ENOTEMPTY,
                "cannot make the run directory {} ({}); choose another run.dir", dir_, std::strerror(why));
    lock_.reset();
    const RunLock other(dir_, lost_);  // throws, and says who has it
    WEFT_VALIDATE(false, "{}: another run made it meanwhile, and has ended; start again", dir_);
  } catch (...) {
    lock_.reset();
    std::error_code ignored;  // the earlier error is the one that counts
    fs::remove_all(temporary, ignored);
    throw;
  }
}

}  // namespace weft::job
