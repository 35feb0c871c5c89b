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

std::vector<Candidate> own_candidates(std::vector<ckpt::Found::Whole> checkpoints) {
  std::vector<Candidate> own;
  for (auto& checkpoint : checkpoints) own.push_back({std::move(checkpoint.path), true});
  return own;
}

/// Finds what candidates() returns; rank 0 calls it, and checkpoint.resume is not "never".
std::vector<Candidate> find_candidates(const Deck& deck) {
  ckpt::Found found = ckpt::find_checkpoints(checkpoints_dir(deck));
  for (const std::string& problem : found.damaged) log::warn("a checkpoint is passed over: {}", problem);
  const std::string origin = named_origin(deck);
  if (origin.empty()) {
    if (found.whole.empty() && !found.damaged.empty()) fail_unusable(deck, found.damaged);
    return own_candidates(std::move(found.whole));
  }
  std::erase_if(found.whole, [&](const ckpt::Found::Whole& c) { return c.origin != origin; });
  const bool own = is_own_checkpoint(deck, deck.checkpoint.resume);
  // The damaged checkpoints may be all that this run has made since it started from elsewhere.
  if (found.whole.empty() && !found.damaged.empty() && !own) fail_unusable(deck, found.damaged);
  std::vector<Candidate> all = own_candidates(std::move(found.whole));
  all.push_back({deck.checkpoint.resume, own});
  return all;
}

}  // namespace

std::string checkpoints_dir(const Deck& deck) {
  return deck.run.dir + "/checkpoints";
}

void fail_unusable(const Deck& deck, const std::vector<std::string>& damaged) {
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

std::string named_origin(const Deck& deck) {
  const std::string& resume = deck.checkpoint.resume;
  return resume == "auto" || resume == "never" ? std::string() : as_name(normal(resume));
}

std::vector<Candidate> candidates(const Deck& deck, comm::World& world) {
  if (deck.checkpoint.resume == "never") return {};
  std::string text;  // for each candidate '+' (the run's own) or '-', the path, and a zero byte
  comm::agree(world, [&] {
    if (world.rank() != 0) return;
    for (const Candidate& c : find_candidates(deck)) text += (c.own ? '+' : '-') + c.path + '\0';
  });
  text = world.broadcast(text, 0);
  std::vector<Candidate> all;
  for (std::size_t begin = 0, end; (end = text.find('\0', begin)) != std::string::npos; begin = end + 1)
    all.push_back({text.substr(begin + 1, end - begin - 1), text[begin] == '+'});
  return all;
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
