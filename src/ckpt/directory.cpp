#include "ckpt/directory.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/check.hpp"
#include "ckpt/manifest.hpp"
#include "ckpt/stored_files.hpp"
#include "io/file.hpp"
#include "io/storage_wait.hpp"

namespace weft::ckpt::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view step_prefix = "step-";

void read_into(Entry& entry, const std::string& path, Look look) {
  try {
    Manifest manifest = read_manifest(path);
    if (look == Look::at_files) check_files(manifest);
    entry.serial = manifest.serial;
    entry.bytes = manifest.bytes();
    entry.saved_at = std::move(manifest.saved_at);
    entry.run = std::move(manifest.run);
  } catch (const io::Unreadable& e) {
    entry.condition = Condition::unreadable;
    entry.problem = e.what();
  } catch (const Error& e) {
    entry.condition = Condition::damaged;
    entry.problem = e.what();
  }
}

/// The names in one directory; none when it does not exist.
std::vector<std::string> names_in(const std::string& dir) {
  const io::StorageWait wait("list", dir);
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(dir, error);
  if (error == std::errc::no_such_file_or_directory) {
    std::error_code looking;
    const fs::file_type type = fs::symlink_status(dir, looking).type();
    if (type == fs::file_type::none) io::fail_reading("look at", dir, looking.value());
    if (type != fs::file_type::symlink) return names;
    throw io::Unreadable(
        fmt::format("cannot list {} (it is a link to nothing that is there); mount what it leads "
                    "to, or remove the link",
                    dir));
  }
  while (!error && at != fs::directory_iterator()) {
    names.push_back(at->path().filename().string());
    at.increment(error);
  }
  if (error) io::fail_reading("list", dir, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view suffix_of(std::string_view name) {
  return name.substr(without_suffix(name).size());
}

/// Why a checkpoint was set aside; nothing when it was not.
std::optional<std::string_view> why_aside(std::string_view name) {
  const std::string_view suffix = suffix_of(name);
  if (suffix.starts_with(damaged_suffix)) return "it is damaged";
  if (suffix.starts_with(unreadable_suffix)) return "it could not be read";
  return std::nullopt;
}

bool is_checkpoint(std::string_view name) {
  const std::string_view suffix = suffix_of(name);
  return step_of(without_suffix(name)) && (suffix.empty() || suffix == replaced_suffix || why_aside(name));
}

}  // namespace

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:08}", step_prefix, step);
}

std::string_view without_suffix(std::string_view name) {
  return name.substr(0, name.find('.'));
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  name.remove_prefix(step_prefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

std::vector<std::string> checkpoint_names(const std::string& checkpoints_dir) {
  auto names = names_in(checkpoints_dir);
  std::erase_if(names, [](const std::string& name) { return !is_checkpoint(name); });
  return names;
}

Entry look_at(const std::string& checkpoints_dir, const std::string& name, Look look) {
  Entry entry;
  entry.name = name;
  entry.step = step_of(without_suffix(name)).value();
  if (const auto why = why_aside(name)) {
    entry.condition = Condition::damaged;
    entry.problem = fmt::format(
        "{} was renamed by an earlier run or save, because {}; remove it when you have looked at it", name,
        *why);
  } else {
    read_into(entry, checkpoints_dir + "/" + name, look);
  }
  return entry;
}

bool is_whole(const std::string& checkpoints_dir, const std::string& name) {
  return look_at(checkpoints_dir, name, Look::at_files).condition == Condition::whole;
}

std::vector<Entry> scan(const std::string& checkpoints_dir, Look look) {
  std::vector<Entry> entries;
  for (const std::string& name : checkpoint_names(checkpoints_dir))
    entries.push_back(look_at(checkpoints_dir, name, look));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    const bool a_whole = a.condition == Condition::whole;
    const bool b_whole = b.condition == Condition::whole;
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

std::string read_latest(const std::string& checkpoints_dir) {
  const std::string link = checkpoints_dir + "/" + latest_name;
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  const bool none = error == std::errc::no_such_file_or_directory || error == std::errc::invalid_argument;
  if (error && !none) io::fail_reading("read", link, error.value());
  return none ? std::string() : target.string();
}

}  // namespace weft::ckpt::detail
