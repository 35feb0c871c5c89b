#include "train/starting_point.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"
#include "ckpt/load.hpp"
#include "train/agree.hpp"
#include "train/free_name.hpp"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

std::string normal(const std::string& dir) {
  fs::path path = fs::absolute(dir).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "step-00000005/"
  return path.string();
}

/// Ends a start that would have to begin again beside checkpoints that somebody may still rescue.
[[noreturn]] void fail_unusable(const Deck& deck, const std::vector<std::string>& damaged) {
  throw Error(ExitCode::bad_checkpoint,
              fmt::format("{} holds checkpoints, and none of them can be used ({}{}); restore one, or set "
                          "checkpoint.resume = \"never\" to start over, which keeps what is there",
                          checkpoints_dir(deck), damaged.front(),
                          damaged.size() > 1 ? fmt::format("; and {} more", damaged.size() - 1) : ""));
}

std::vector<std::string> paths_of(std::vector<ckpt::Found::Whole> checkpoints) {
  std::vector<std::string> paths;
  for (auto& checkpoint : checkpoints) paths.push_back(std::move(checkpoint.path));
  return paths;
}

/// What candidates() returns, on rank 0; checkpoint.resume is not "never" here.
std::vector<std::string> find_candidates(const Deck& deck) {
  ckpt::Found found = ckpt::find_checkpoints(checkpoints_dir(deck));
  for (const std::string& problem : found.damaged) log::warn("a checkpoint is passed over: {}", problem);
  const std::string origin = named_origin(deck);
  if (origin.empty()) {
    if (found.whole.empty() && !found.damaged.empty()) fail_unusable(deck, found.damaged);
    return paths_of(std::move(found.whole));
  }
  std::erase_if(found.whole, [&](const ckpt::Found::Whole& c) { return c.origin != origin; });
  // A run that was started from elsewhere may have nothing left but these damaged ones: to start it again
  // would hide that.
  if (found.whole.empty() && !found.damaged.empty() && !is_own_checkpoint(deck, origin))
    fail_unusable(deck, found.damaged);
  std::vector<std::string> paths = paths_of(std::move(found.whole));
  paths.push_back(deck.checkpoint.resume);
  return paths;
}

}  // namespace

std::string checkpoints_dir(const Deck& deck) {
  return deck.run.dir + "/checkpoints";
}

bool is_own_checkpoint(const Deck& deck, const std::string& dir) {
  std::error_code error;
  const bool same = fs::equivalent(fs::path(normal(dir)).parent_path(), checkpoints_dir(deck), error);
  const bool missing = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !missing)
    throw Error(ExitCode::bad_checkpoint,
                fmt::format("cannot look at {} or at {} ({}); try again when they can be read", dir,
                            checkpoints_dir(deck), error.message()));
  return !error && same;
}

std::string named_origin(const Deck& deck) {
  const std::string& resume = deck.checkpoint.resume;
  return resume == "auto" || resume == "never" ? std::string() : normal(resume);
}

std::vector<std::string> candidates(const Deck& deck, comm::World& world) {
  if (deck.checkpoint.resume == "never") return {};
  std::string lines;
  agree(world, [&] {
    if (world.rank() != 0) return;
    for (const std::string& path : find_candidates(deck)) lines += path + '\n';
  });
  lines = world.broadcast(lines, 0);
  std::vector<std::string> paths;
  for (std::size_t begin = 0, end; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1)
    paths.push_back(lines.substr(begin, end - begin));
  return paths;
}

std::string set_earlier_aside(const Deck& deck) {
  const std::string dir = checkpoints_dir(deck);
  if (!ckpt::holds_checkpoints(dir)) return {};
  const std::string aside = free_name(dir + ".old");
  WEFT_SYSTEM(std::rename(dir.c_str(), aside.c_str()) == 0,
              "cannot move the earlier checkpoints in {} out of the way ({}); choose another run.dir", dir,
              std::strerror(errno));
  return aside;
}

}  // namespace weft::train
