#include "ckpt/publish.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/check.hpp"
#include "base/storage_wait.hpp"
#include "ckpt/file.hpp"

namespace weft::ckpt::detail {

namespace fs = std::filesystem;

namespace {

void rename_or_throw(const std::string& from, const std::string& to) {
  const StorageWait wait("rename", to);
  if (::rename(from.c_str(), to.c_str()) != 0) fail_errno("rename to", to, errno);
}

bool exchange(const std::string& a, const std::string& b) {
#ifdef RENAME_EXCHANGE
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
#else
  return false;
#endif
}

bool exists(const std::string& path) {
  const StorageWait wait("stat", path);
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT) fail_reading("look at", path, errno);
  return false;
}

/// The first of PATH SUFFIX, PATH-2 SUFFIX, ... (`numbered` says how) that does not exist.
template <class Numbered>
std::string free_path(Numbered&& numbered) {
  for (int i = 1;; ++i)
    if (std::string path = numbered(i); !exists(path)) return path;
}

/// Removes a file or a directory with all below it; returns one line when something stays.
std::string remove_all(const std::string& path) {
  const StorageWait wait("remove", path);
  std::error_code error;
  fs::remove_all(path, error);
  return error
             ? fmt::format("cannot remove {} ({}); it takes space until you remove it", path, error.message())
             : std::string();
}

}  // namespace

void sync_ancestors(const std::string& dir) {
  std::error_code error;
  const fs::path whole = fs::canonical(dir, error);
  if (error) fail_errno("resolve", dir, error.value());
  fs::path path = whole.parent_path();
  sync_directory(path);
  while (path.has_relative_path()) {
    path = path.parent_path();
    try {
      sync_directory(path);
    } catch (const Error&) {
      return;  // not ours: it was there before
    }
  }
}

std::string make_unfinished(const std::string& checkpoints_dir, const std::string& name) {
  const std::string path = checkpoints_dir + "/" + name;
  std::string temporary = free_path([&](int i) {
    return i == 1 ? path + unfinished_suffix : fmt::format("{}.{}{}", path, i, unfinished_suffix);
  });
  if (::mkdir(temporary.c_str(), 0777) != 0) fail_errno("make", temporary, errno);
  return temporary;
}

std::vector<std::string> remove_unfinished(const std::string& checkpoints_dir) {
  std::vector<std::string> problems;
  for (const std::string& name : unfinished(checkpoints_dir))
    if (std::string problem = remove_all(checkpoints_dir + "/" + name); !problem.empty())
      problems.push_back(std::move(problem));
  return problems;
}

std::vector<std::string> settle_replaced(const std::string& checkpoints_dir,
                                         const std::vector<Entry>& entries) {
  std::vector<std::string> problems;
  for (const Entry& entry : entries) {
    if (!entry.name.ends_with(replaced_suffix)) continue;
    const std::string name = step_name(entry.step);
    const auto newer =
        std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
    if (newer == entries.end()) {
      rename_or_throw(checkpoints_dir + "/" + entry.name, checkpoints_dir + "/" + name);
      sync_directory(checkpoints_dir);
    } else if (newer->condition == Condition::whole) {
      if (std::string problem = remove_checkpoint(checkpoints_dir, entry.name); !problem.empty())
        problems.push_back(std::move(problem));
    }
  }
  return problems;
}

std::string set_aside(const std::string& checkpoints_dir, const std::string& name) {
  const std::string path = checkpoints_dir + "/" + name;
  const std::string aside = free_path([&](int i) {
    return i == 1 ? path + damaged_suffix : fmt::format("{}{}-{}", path, damaged_suffix, i);
  });
  rename_or_throw(path, aside);
  sync_directory(checkpoints_dir);
  return base_name(aside);
}

bool publish(const std::string& checkpoints_dir, const std::string& temporary, const std::string& name) {
  const std::string to = checkpoints_dir + "/" + name;
  bool replaced_is_left = false;
  if (!exists(to)) {
    rename_or_throw(temporary, to);
  } else if (!exchange(temporary, to)) {
    const std::string replaced = to + replaced_suffix;
    rename_or_throw(to, replaced);
    if (::rename(temporary.c_str(), to.c_str()) != 0) {
      const int error = errno;
      if (::rename(replaced.c_str(), to.c_str()) != 0) fail_errno("rename back to", to, errno);
      fail_errno("rename to", to, error);
    }
    replaced_is_left = true;
  }
  sync_directory(checkpoints_dir);
  return replaced_is_left;
}

void move_latest(const std::string& checkpoints_dir, const std::string& name) {
  const std::string link = checkpoints_dir + "/" + latest_name;
  const std::string next = link + unfinished_suffix;
  if (::unlink(next.c_str()) != 0 && errno != ENOENT) fail_errno("remove", next, errno);
  if (::symlink(name.c_str(), next.c_str()) != 0) fail_errno("link", next, errno);
  rename_or_throw(next, link);
  sync_directory(checkpoints_dir);
}

std::string remove_checkpoint(const std::string& checkpoints_dir, const std::string& name) {
  const std::string path = checkpoints_dir + "/" + name;
  const std::string hidden = free_path([&](int i) {
    return i == 1 ? fmt::format("{}.removed{}", path, unfinished_suffix)
                  : fmt::format("{}.removed-{}{}", path, i, unfinished_suffix);
  });
  rename_or_throw(path, hidden);
  sync_directory(checkpoints_dir);
  return remove_all(hidden);
}

}  // namespace weft::ckpt::detail
