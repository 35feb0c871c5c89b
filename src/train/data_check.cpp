#include "train/data_check.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/affinity.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "data/body_check.hpp"

namespace weft::train {
namespace {

/// Seconds between two lines of progress while a large file is read.
constexpr double progress_s = 60;
constexpr int lowest_priority = 19;

/// Who reads what, a line "RANK FILE" each; on rank 0. Ranks whose files have one identity see the same file
/// on storage, and one of them reads it; files are dealt out to ranks in turn.
std::string deal(const std::vector<std::string>& identities_by_rank, std::size_t files) {
  std::map<std::pair<std::size_t, std::string>, std::vector<std::size_t>> holders;
  for (std::size_t rank = 0; rank < identities_by_rank.size(); ++rank) {
    std::string_view lines = identities_by_rank[rank];
    for (std::size_t file = 0; file < files; ++file) {
      const std::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(line.size() + 1);
      holders[{file, std::string(line)}].push_back(rank);
    }
  }
  std::string text;
  std::size_t turn = 0;
  for (const auto& [file, ranks] : holders)
    text += fmt::format("{} {}\n", ranks[turn++ % ranks.size()], file.first);
  return text;
}

}  // namespace

DataCheck::DataCheck(comm::World& world, std::vector<data::TokenFile> files,
                     std::vector<ckpt::DataFile> described, const std::vector<ckpt::DataFile>& saved)
    : files_(std::move(files)), described_(std::move(described)), marks_(files_.size()) {
  share_out(world, saved);
  if (mine_.empty())
    state_ = State::done;
  else
    thread_ = std::thread([this] { run(); });
}

DataCheck::~DataCheck() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void DataCheck::share_out(comm::World& world, const std::vector<ckpt::DataFile>& saved) {
  std::string identities;
  for (const data::TokenFile& file : files_) identities += file.identity() + '\n';
  const auto all = world.gather_strings(identities);
  std::string message;  // whether all are the same, then who reads what
  if (world.rank() == 0) {
    const bool same = std::all_of(all.begin(), all.end(), [&](const std::string& i) { return i == all[0]; });
    message = (same ? "same\n" : "differ\n") + deal(all, files_.size());
  }
  message = world.broadcast(std::move(message), 0);
  const bool same = message.starts_with("same");
  if (same)
    for (std::size_t i = 0; i < files_.size(); ++i) marks_[i] = files_[i].identity();
  const auto is_verified = [&](std::size_t i) {
    return std::any_of(saved.begin(), saved.end(), [&](const ckpt::DataFile& file) {
      return same && !file.verified.empty() && file.verified == marks_[i] &&
             file.fingerprint == described_[i].fingerprint;
    });
  };
  std::string_view lines = message;
  lines.remove_prefix(lines.find('\n') + 1);
  while (!lines.empty()) {
    const std::string line(lines.substr(0, lines.find('\n')));
    lines.remove_prefix(line.size() + 1);
    const std::size_t space = line.find(' ');
    const std::size_t file = std::stoul(line.substr(space + 1));
    if (std::stoi(line) == world.rank() && !is_verified(file)) mine_.push_back(file);
  }
}

void DataCheck::run() {
  reset_affinity();
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), lowest_priority);  // of this thread alone
  try {
    for (const std::size_t i : mine_)
      if (!stop_) read(files_[i]);
    if (!stop_) state_ = State::done;
  } catch (const std::exception& e) {
    problem_ = message_of(e);
    code_ = exit_code_of(e);
    state_ = State::failed;
  }
}

void DataCheck::read(const data::TokenFile& file) {
  const double start = seconds_now();
  double told = start;
  data::check_body(file, [&](std::int64_t bytes) {
    const double now = seconds_now();
    if (now - told > progress_s) {
      told = now;
      const double done = static_cast<double>(bytes);
      log::info("{}: {:.0f} of {:.0f} MiB are read to verify its checksum, {:.0f} MiB/s", file.path(),
                done / (1 << 20), static_cast<double>(file.bytes()) / (1 << 20),
                done / (1 << 20) / (now - start));
    }
    return !stop_;
  });
}

void DataCheck::wait(double seconds) const {
  const double start = seconds_now();
  while (state_ == State::under_way && seconds_now() - start < seconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void DataCheck::rethrow() const {
  if (state_ == State::failed) throw Error(code_, problem_);
}

std::vector<ckpt::DataFile> DataCheck::verified() const {
  std::vector<ckpt::DataFile> files = described_;
  for (std::size_t i = 0; i < files.size(); ++i) files[i].verified = marks_[i];
  return files;
}

}  // namespace weft::train
