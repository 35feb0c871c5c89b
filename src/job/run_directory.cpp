#include "job/run_directory.hpp"

#include <filesystem>
#include <utility>

#include "base/check.hpp"
#include "io/new_directory.hpp"
#include "io/path.hpp"
#include "io/small_file.hpp"
#include "job/run_owner.hpp"

namespace weft::job {
namespace {

namespace fs = std::filesystem;

void write_deck(const std::string& dir, const std::string& deck) {
  io::replace_file(dir + "/deck.toml", deck);
}

}  // namespace

RunDirectory::RunDirectory(const std::string& dir, RunLock::Lost lost)
    : dir_(io::without_slashes(dir)), lost_(std::move(lost)) {
  std::error_code error;
  const bool there = fs::exists(dir_, error);
  WEFT_SYSTEM(!error, "cannot look for the run directory {} ({}); see to its file system, then start again",
              dir_, error.message());
  fs::path nearest = fs::absolute(dir_);  // what of the path is there
  while (nearest.has_relative_path() && !fs::exists(nearest)) {
    WEFT_VALIDATE(!fs::is_symlink(nearest),
                  "{} cannot be a run directory ({} is a link to nothing that is there); mount what it leads "
                  "to, or choose another run.dir",
                  dir_, nearest.string());
    nearest = nearest.parent_path();
  }
  WEFT_VALIDATE(fs::is_directory(nearest),
                "{} cannot be a run directory ({} is not a directory); choose another run.dir", dir_,
                nearest.string());
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
  const std::string temporary = fmt::format(".{}.{}.{}.tmp", dir.filename().string(), me.host, me.pid);
  io::NewDirectory made(dir.string(), (dir.parent_path() / temporary).string());
  try {
    lock_.emplace(made.temporary(), lost_);
    write_deck(made.temporary(), deck);
    if (made.publish()) {
      lock_->moved_to(dir_);
      return made.sync();
    }
    lock_.reset();
    const RunLock other(dir_, lost_);  // throws, and says who has it
    WEFT_VALIDATE(false, "{}: another run made it meanwhile, and has ended; start again", dir_);
  } catch (...) {
    lock_.reset();  // the lock ends before the directory that it is in is removed
    throw;
  }
}

}  // namespace weft::job
