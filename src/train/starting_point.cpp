#include "train/starting_point.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/quoted.hpp"
#include "ckpt/load.hpp"
#include "comm/agree.hpp"
#include "io/file.hpp"
#include "io/free_name.hpp"
#include "io/storage_wait.hpp"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

std::string normal(const std::string& dir) {
  fs::path path = fs::absolute(dir).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "step-00000005/"
  return path.string();
}

/// A path as a name in a manifest, which is UTF-8 without control characters. The working directory, which is
/// a part of it, may have any bytes: those above 127 are then written as \xNN.
std::string as_name(const std::string& path) {
  if (is_utf8(path)) return one_line(path);
  std::string name;
  for (const char c : path) {
    const auto code = static_cast<unsigned char>(c);
    name += code >= 0x80 ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return one_line(name);
}

/// The device and inode of a directory; nothing when there is none.
std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& dir) {
  const io::StorageWait wait("stat", dir);
  struct stat status {};
  if (::stat(dir.c_str(), &status) == 0) return std::pair(status.st_dev, status.st_ino);
  if (errno != ENOENT && errno != ENOTDIR) io::fail_reading("look at", dir, errno);
  return std::nullopt;
}

/// Whether `dir` is in the checkpoints directory of this deck's run, however its path is written.
bool is_own_checkpoint(const Deck& deck, const std::string& dir) {
  const auto own = identity_of(checkpoints_dir(deck));
  return own && own == identity_of(fs::path(normal(dir)).parent_path());
}

/// Finds what candidates() returns; rank 0 calls it, and checkpoint.resume is not "never".
Candidates find_candidates(const Deck& deck) {
  ckpt::Found found = ckpt::find_checkpoints(checkpoints_dir(deck));
  for (const std::string& problem : found.damaged) log::warn("a checkpoint is passed over: {}", problem);
  const std::string origin = named_origin(deck);
  Candidates list{{}, std::move(found.damaged)};
  for (ckpt::Found::Checkpoint& checkpoint : found.checkpoints)
    if (origin.empty() || checkpoint.origin == origin) list.all.push_back({std::move(checkpoint.path), true});
  if (!origin.empty()) {
    const std::string& path = deck.checkpoint.resume;
    list.all.push_back({path, is_own_checkpoint(deck, path), true});
  }
  return list;
}

/// The path without any links; empty when there is nothing there.
fs::path canonical(const std::string& path) {
  const io::StorageWait wait("resolve", path);
  std::error_code error;
  fs::path whole = fs::canonical(path, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    io::fail_reading("resolve", path, error.value());
  return whole;
}

/// Whether `path` leads to something below `dir`, however both are written.
bool leads_below(const std::string& path, const std::string& dir) {
  const fs::path inner = canonical(path), outer = canonical(dir);
  const auto part = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return part.first == outer.end() && part.second != inner.end();
}

/// Throws Error(bad_checkpoint) that says which checkpoints cannot be used; there is at least one.
[[noreturn]] void fail_unusable(const Deck& deck, const std::vector<std::string>& damaged) {
  const std::string which = fmt::format(
      "{}{}", damaged.front(), damaged.size() > 1 ? fmt::format("; and {} more", damaged.size() - 1) : "");
  const std::string origin = named_origin(deck);
  throw Error(
      ExitCode::bad_checkpoint,
      origin.empty()
          ? fmt::format("{} holds checkpoints, and none of them can be used ({}); restore one, or set "
                        "checkpoint.resume = \"never\" to start over, which keeps what is there",
                        checkpoints_dir(deck), which)
          : fmt::format("{} holds checkpoints, and none that goes back to {} can be used ({}); restore "
                        "one, or choose another run.dir to start from there again",
                        checkpoints_dir(deck), origin, which));
}

}  // namespace

std::string checkpoints_dir(const Deck& deck) {
  return deck.run.dir + "/checkpoints";
}

void check_beginning(const Deck& deck, const std::vector<std::string>& damaged) {
  if (!damaged.empty()) fail_unusable(deck, damaged);
  const std::string dir = checkpoints_dir(deck);
  if (named_origin(deck).empty() || !ckpt::holds_checkpoints(dir)) return;
  WEFT_VALIDATE(!leads_below(deck.checkpoint.resume, dir),
                "{}: {} is in {} (which is moved to {}.old when a run starts from elsewhere); move the "
                "checkpoint out of it, or choose another run.dir",
                place_of(deck, "checkpoint.resume"), deck.checkpoint.resume, dir, dir);
}

std::string named_origin(const Deck& deck) {
  const std::string& resume = deck.checkpoint.resume;
  return resume == "auto" || resume == "never" ? std::string() : as_name(normal(resume));
}

Candidates candidates(const Deck& deck, comm::World& world) {
  if (deck.checkpoint.resume == "never") return {};
  Candidates found;
  std::string text;  // for each candidate whether it is own, whether it is named, the path, and a zero byte
  comm::agree(world, [&] {
    if (world.rank() != 0) return;
    found = find_candidates(deck);
    for (const Candidate& c : found.all) text += fmt::format("{:d}{:d}{}{}", c.own, c.named, c.path, '\0');
  });
  text = world.broadcast(text, 0);
  found.all.clear();
  for (std::size_t begin = 0, end; (end = text.find('\0', begin)) != std::string::npos; begin = end + 1)
    found.all.push_back(
        {text.substr(begin + 2, end - begin - 2), text[begin] == '1', text[begin + 1] == '1'});
  return found;
}

std::string set_earlier_aside(const Deck& deck) {
  const std::string dir = checkpoints_dir(deck);
  if (!ckpt::holds_checkpoints(dir)) return {};
  if (deck.checkpoint.resume == "auto")
    throw Error(ExitCode::bad_checkpoint,
                fmt::format("there are checkpoints in {} now (there were none when this run started); start "
                            "again, to go on from them",
                            dir));
  const std::string aside = io::free_name(dir + ".old");
  WEFT_SYSTEM(std::rename(dir.c_str(), aside.c_str()) == 0,
              "cannot move the earlier checkpoints in {} out of the way ({}); choose another run.dir", dir,
              std::strerror(errno));
  return aside;
}

}  // namespace weft::train
