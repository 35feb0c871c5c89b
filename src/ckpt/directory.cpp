#include "ckpt/directory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/check.hpp"
#include "ckpt/file.hpp"
#include "ckpt/manifest.hpp"

namespace weft::ckpt::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view step_prefix = "step-";

Entry read_entry(const std::string& checkpoints_dir, std::string name, std::int64_t step) {
  Entry entry;
  entry.name = std::move(name);
  entry.step = step;
  try {
    Manifest manifest = read_manifest(checkpoints_dir + "/" + entry.name);
    check_files(manifest);
    entry.serial = manifest.serial;
    entry.bytes = manifest.bytes();
    entry.saved_at = std::move(manifest.saved_at);
    entry.run = std::move(manifest.run);
  } catch (const std::exception& e) {
    entry.problem = e.what();
  }
  return entry;
}

std::vector<std::string> names_in(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void rename_or_throw(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_errno("rename to", to, errno);
}

bool exchange(const std::string& a, const std::string& b) {
#ifdef RENAME_EXCHANGE
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
#else
  return false;
#endif
}

}  // namespace

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:08}", step_prefix, step);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  name.remove_prefix(step_prefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

void sync_ancestors(const std::string& dir) {
  fs::path path = fs::canonical(dir).parent_path();
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

std::vector<Entry> scan(const std::string& checkpoints_dir) {
  std::vector<Entry> entries;
  for (std::string& name : names_in(checkpoints_dir)) {
    if (const auto step = step_of(name))
      entries.push_back(read_entry(checkpoints_dir, std::move(name), *step));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    const bool a_whole = a.problem.empty();
    const bool b_whole = b.problem.empty();
    if (a_whole != b_whole) return a_whole;
    return a.serial != b.serial ? a.serial > b.serial : a.step > b.step;
  });
  return entries;
}

std::vector<std::string> unfinished(const std::string& checkpoints_dir) {
  auto names = names_in(checkpoints_dir);
  std::erase_if(names, [](const std::string& name) {
    return !(name.starts_with(step_prefix) && name.ends_with(unfinished_suffix));
  });
  return names;
}

void remove_unfinished(const std::string& checkpoints_dir) {
  for (const auto& name : unfinished(checkpoints_dir)) fs::remove_all(checkpoints_dir + "/" + name);
}

std::string read_latest(const std::string& checkpoints_dir) {
  std::error_code error;
  const fs::path target = fs::read_symlink(checkpoints_dir + "/" + latest_name, error);
  return error ? std::string() : target.string();
}

void move_latest(const std::string& checkpoints_dir, const std::string& name) {
  const std::string link = checkpoints_dir + "/" + latest_name;
  const std::string next = link + unfinished_suffix;
  ::unlink(next.c_str());
  if (::symlink(name.c_str(), next.c_str()) != 0) fail_errno("link", next, errno);
  rename_or_throw(next, link);
  sync_directory(checkpoints_dir);
}

void publish(const std::string& checkpoints_dir, const std::string& name) {
  const std::string to = checkpoints_dir + "/" + name;
  const std::string from = to + unfinished_suffix;
  if (!fs::exists(to)) {
    rename_or_throw(from, to);
  } else if (!exchange(from, to)) {
    // Not atomic: a crash between the two renames leaves the older checkpoints only.
    const std::string replaced = to + ".replaced" + unfinished_suffix;
    rename_or_throw(to, replaced);
    if (::rename(from.c_str(), to.c_str()) != 0) {
      const int error = errno;
      ::rename(replaced.c_str(), to.c_str());
      fail_errno("rename to", to, error);
    }
  }
  sync_directory(checkpoints_dir);
}

void remove_checkpoint(const std::string& checkpoints_dir, const std::string& name) {
  const std::string path = checkpoints_dir + "/" + name;
  const std::string hidden = path + ".removed" + unfinished_suffix;
  rename_or_throw(path, hidden);
  sync_directory(checkpoints_dir);
  fs::remove_all(hidden);
}

}  // namespace weft::ckpt::detail
