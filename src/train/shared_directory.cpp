#include "train/shared_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "comm/agree.hpp"
#include "io/storage_wait.hpp"

namespace weft::train {
namespace {

constexpr std::size_t most_hosts = 3;  ///< how many hosts a message names

/// How many seconds a rank looks for the file. That is longer than an NFS client may go on believing that a
/// directory is not there (acdirmax, 60 s), and shorter than the time after which the ranks that wait for it
/// would count as hanging.
double patience_s(const Deck& deck) {
  constexpr double most = 90;
  return deck.run.collective_timeout > 0 ? std::min(most, deck.run.collective_timeout / 2) : most;
}

/// Opens the directory, because that lets a network file system ask its server what is in it.
void look_again(const std::string& dir) {
  const io::StorageWait wait("opendir", dir);
  if (DIR* const opened = ::opendir(dir.c_str())) ::closedir(opened);
}

/// What a file holds, and the errno that storage gave instead, or 0.
struct Answer {
  std::string content;
  int error = 0;
};

Answer read(const std::string& path) {
  const io::StorageWait wait("read", path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {{}, errno};
  std::array<char, 4096> bytes;  // that is enough, because a lock has only some lines
  const ssize_t n = ::read(fd, bytes.data(), bytes.size());
  const int error = n < 0 ? errno : 0;
  ::close(fd);
  return {std::string(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))), error};
}

/// Whether the machine refuses to answer. Another file, or none, is an answer.
bool refuses(const Answer& answer) {
  return answer.error != 0 && answer.error != ENOENT && answer.error != ENOTDIR;
}

/// The last answer about RUN_DIR/lock. It asks until the file is as expected, or the patience is over.
Answer ask(const Deck& deck, const std::string& expected) {
  const std::string whole = std::filesystem::absolute(deck.run.dir).lexically_normal().string();
  const std::string parent = std::filesystem::path(whole).parent_path().string();
  const std::string lock = deck.run.dir + "/lock";
  const double start = seconds_now();
  Answer answer = read(lock);
  while ((answer.error != 0 || answer.content != expected) && seconds_now() - start < patience_s(deck)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    look_again(parent);
    answer = read(lock);
  }
  return answer;
}

/// Collective: "n2, n3, n4 and 5 more", the hosts of the ranks that are `concerned`.
std::string hosts_of(comm::World& world, bool concerned) {
  const auto all = world.gather_strings(concerned ? world.host() : std::string());
  std::vector<std::string> hosts;
  for (const std::string& host : all)
    if (!host.empty() && std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  const std::size_t told = std::min(hosts.size(), most_hosts);
  std::string text;
  for (std::size_t i = 0; i < told; ++i) text += (i > 0 ? ", " : "") + hosts[i];
  if (told < hosts.size()) text += fmt::format(" and {} more", hosts.size() - told);
  return world.broadcast(std::move(text), 0);
}

}  // namespace

bool check_shared_directory(comm::World& world, const Deck& deck, const std::string& mark) {
  const std::string expected = world.broadcast(mark, 0);
  if (expected.empty()) return false;
  const Answer answer = ask(deck, expected);
  const bool refused = refuses(answer);
  const bool differs = !refused && answer.content != expected;
  const std::string refused_on = hosts_of(world, refused), differs_on = hosts_of(world, differs);
  const std::string dir = std::filesystem::absolute(deck.run.dir).lexically_normal().string();
  comm::agree(world, [&] {
    WEFT_SYSTEM(!refused, "cannot read {}/lock on {} ({}); see to its file system there, then start again",
                dir, refused_on, std::strerror(answer.error));
    WEFT_VALIDATE(!differs,
                  "{} on {} is not the run directory of rank 0 (the file lock in it is another one, or "
                  "missing); choose "
                  "a run.dir that all hosts share, by its whole path",
                  dir, differs_on);
  });
  return true;
}

SharedDirectory::SharedDirectory(const Deck& deck, comm::World& world, std::function<void()> on_seen)
    : deck_(deck), world_(world), on_seen_(std::move(on_seen)) {
  comm::agree(world_, [&] {
    if (world_.rank() != 0) return;
    rank_0s_.emplace(deck_.run.dir, [&world](const std::string& why) {
      log::write_error(why);
      world.abort(static_cast<int>(ExitCode::failure));
    });
  });
}

void SharedDirectory::check() {
  const std::string mark = rank_0s_ ? rank_0s_->mark() : std::string();
  if (check_shared_directory(world_, deck_, mark) && on_seen_) on_seen_();
}

void SharedDirectory::make(const std::string& deck, const std::function<void()>& on_rank_0) {
  comm::agree(world_, [&] {
    if (!rank_0s_) return;
    rank_0s_->write(deck);
    on_rank_0();
  });
  check();
}

}  // namespace weft::train
