#include "ckpt/publish.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/check.hpp"
#include "io/file.hpp"
#include "io/storage_wait.hpp"

namespace weft::ckpt::detail {

namespace fs = std::filesystem;

namespace {

void rename_or_throw(const std::string& from, const std::string& to) {
  const io::StorageWait wait("rename", to);
  if (::rename(from.c_str(), to.c_str()) != 0) io::fail_errno("rename to", to, errno);
}

bool exchange(const std::string& a, const std::string& b) {
#ifdef RENAME_EXCHANGE
  const io::StorageWait wait("rename", b);
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
#else
  return false;
#endif
}

bool exists(const std::string& path) {
  const io::StorageWait wait("stat", path);
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT) io::fail_reading("look at", path, errno);
  return false;
}

/// Tries PATH, PATH-2, ... with the suffix, as `numbered` writes them, and returns the first that does not
/// exist.
template <class Numbered>
std::string free_path(Numbered&& numbered) {
  for (int i = 1;; ++i)
    if (std::string path = numbered(i); !exists(path)) return path;
}

/// Removes a file or a directory with all below it, until something cannot be removed. Each call waits for
/// storage by itself: a large directory may take minutes, and is no storage that hangs.
void remove_below(const std::string& path, std::error_code& error) {
  std::vector<std::string> below;
  {
    const io::StorageWait wait("list", path);
    if (fs::is_directory(fs::symlink_status(path, error)))
      for (fs::directory_iterator at(path, error); !error && at != fs::directory_iterator();
           at.increment(error))
        below.push_back(at->path());
  }
  for (const std::string& name : below)
    if (!error) remove_below(name, error);
  if (error) return;
  const io::StorageWait wait("remove", path);
  fs::remove(path, error);
}

void make_directory(const std::string& path) {
  const io::StorageWait wait("mkdir", path);
  if (::mkdir(path.c_str(), 0777) != 0) io::fail_errno("make", path, errno);
}

}  // namespace

std::string remove_all(const std::string& path) {
  std::error_code error;
  remove_below(path, error);
  return error
             ? fmt::format("cannot remove {} ({}); it takes space until you remove it", path, error.message())
             : std::string();
}

void sync_ancestors(const std::string& dir) {
  std::error_code error;
  fs::path whole;
  {
    const io::StorageWait wait("resolve", dir);
    whole = fs::canonical(dir, error);
  }
  if (error) io::fail_errno("resolve", dir, error.value());
  for (fs::path path = whole; path.has_relative_path();) {
    path = path.parent_path();
    io::sync_directory_if_permitted(path);  // one that may not be read is not to be synced
  }
}

std::string make_unfinished(const std::string& checkpoints_dir, const std::string& name) {
  const std::string path = checkpoints_dir + "/" + name;
  std::string temporary = free_path([&](int i) {
    return i == 1 ? path + unfinished_suffix : fmt::format("{}.{}{}", path, i, unfinished_suffix);
  });
  make_directory(temporary);
  return temporary;
}

std::vector<std::string> remove_unfinished(const std::string& checkpoints_dir) {
  std::vector<std::string> problems;
  const std::vector<std::string> names = unfinished(checkpoints_dir);
  // One of them may be the earlier checkpoint of a name whose newer one is not on storage yet.
  if (!names.empty()) io::sync_directory(checkpoints_dir);
  for (const std::string& name : names)
    if (std::string problem = remove_all(checkpoints_dir + "/" + name); !problem.empty())
      problems.push_back(std::move(problem));
  return problems;
}

std::string give_name_back(const std::string& checkpoints_dir, const std::string& replaced) {
  std::string name(without_suffix(replaced));
  if (exists(checkpoints_dir + "/" + name)) return replaced;
  rename_or_throw(checkpoints_dir + "/" + replaced, checkpoints_dir + "/" + name);
  io::sync_directory(checkpoints_dir);
  return name;
}

std::vector<std::string> settle_replaced(const std::string& checkpoints_dir,
                                         const std::vector<Entry>& entries) {
  std::vector<std::string> problems;
  for (const Entry& entry : entries) {
    if (!entry.name.ends_with(replaced_suffix) || !is_whole(checkpoints_dir, entry.name)) continue;
    if (give_name_back(checkpoints_dir, entry.name) != entry.name) continue;
    if (!is_whole(checkpoints_dir, std::string(without_suffix(entry.name)))) continue;
    if (std::string problem = remove_checkpoint(checkpoints_dir, entry.name); !problem.empty())
      problems.push_back(std::move(problem));
  }
  return problems;
}

std::string set_aside(const std::string& checkpoints_dir, const std::string& name, Condition condition) {
  const std::string aside = free_path([&](int i) {
    return fmt::format("{}/{}{}{}", checkpoints_dir, without_suffix(name),
                       condition == Condition::damaged ? damaged_suffix : unreadable_suffix,
                       i == 1 ? "" : fmt::format("-{}", i));
  });
  rename_or_throw(checkpoints_dir + "/" + name, aside);
  io::sync_directory(checkpoints_dir);
  return io::base_name(aside);
}

bool publish(const std::string& checkpoints_dir, const std::string& temporary, const std::string& name) {
  const std::string to = checkpoints_dir + "/" + name;
  bool replaced_is_left = false;
  if (!exists(to)) {
    rename_or_throw(temporary, to);
  } else if (!exchange(temporary, to)) {
    const std::string replaced = to + replaced_suffix;
    rename_or_throw(to, replaced);
    try {
      rename_or_throw(temporary, to);
    } catch (const Error&) {
      rename_or_throw(replaced, to);
      throw;
    }
    replaced_is_left = true;
  }
  return replaced_is_left;
}

void move_latest(const std::string& checkpoints_dir, const std::string& name) {
  const std::string link = checkpoints_dir + "/" + latest_name;
  const std::string next = link + unfinished_suffix;
  const io::StorageWait wait("link", next);
  if (::unlink(next.c_str()) != 0 && errno != ENOENT) io::fail_errno("remove", next, errno);
  if (::symlink(name.c_str(), next.c_str()) != 0) io::fail_errno("link", next, errno);
  try {
    rename_or_throw(next, link);
  } catch (const Error&) {
    ::unlink(next.c_str());
    throw;
  }
  io::sync_directory(checkpoints_dir);
}

std::string remove_checkpoint(const std::string& checkpoints_dir, const std::string& name) {
  const std::string path = checkpoints_dir + "/" + name;
  const std::string hidden = free_path([&](int i) {
    return i == 1 ? fmt::format("{}.removed{}", path, unfinished_suffix)
                  : fmt::format("{}.removed-{}{}", path, i, unfinished_suffix);
  });
  rename_or_throw(path, hidden);
  io::sync_directory(checkpoints_dir);
  return remove_all(hidden);
}

}  // namespace weft::ckpt::detail
