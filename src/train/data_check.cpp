#include "train/data_check.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <string_view>
#include <utility>

#include "base/affinity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "data/body_check.hpp"

namespace weft::train {
namespace {

/// Seconds between two lines of progress while a large file is read.
constexpr double progress_s = 60;
/// Seconds that a run which has ended waits for a read to return.
constexpr double leave_s = 2;
constexpr int lowest_priority = 19;

/// The lines of a text without their ends: the identities of one rank's files.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    lines.emplace_back(text.substr(0, text.find('\n')));
    text.remove_prefix(lines.back().size() + 1);
  }
  return lines;
}

/// Deals out the reads; rank 0 calls it. The first line of the result has a letter for each file: s when all
/// ranks have the same one, d when not. Then comes a line for each file on storage: the rank that reads it,
/// and its place. Ranks have a file in common when its identity is the same for them; the reads are dealt out
/// to them in turn.
std::string deal(const std::vector<std::string>& identities_by_rank, std::size_t files) {
  std::map<std::pair<std::size_t, std::string>, std::vector<std::size_t>> holders;
  std::vector<std::size_t> kinds(files);
  for (std::size_t rank = 0; rank < identities_by_rank.size(); ++rank) {
    const std::vector<std::string> identities = lines_of(identities_by_rank[rank]);
    for (std::size_t file = 0; file < files; ++file) {
      auto& ranks = holders[{file, identities.at(file)}];
      if (ranks.empty()) ++kinds[file];
      ranks.push_back(rank);
    }
  }
  std::string text;
  for (const std::size_t n : kinds) text += n == 1 ? 's' : 'd';
  text += '\n';
  std::size_t turn = 0;
  for (const auto& [file, ranks] : holders)
    text += fmt::format("{} {}\n", ranks[turn++ % ranks.size()], file.first);
  return text;
}

}  // namespace

/// What the thread reads, and how far it has come.
struct DataCheck::Reading {
  std::vector<data::TokenFile> files;  ///< the files that this rank reads
  std::vector<std::size_t> places;     ///< the place of each among all files
  std::string problem;                 ///< why it failed; written before the state becomes `failed`
  ExitCode code = ExitCode::ok;
  std::atomic<State> state{State::under_way};
  std::atomic<bool> stop{false};
  std::atomic<bool> over{false};      ///< the thread has nothing left to do
  std::atomic<std::size_t> whole{0};  ///< how many of the files have been read whole
  std::atomic<std::int64_t> left{0};  ///< bytes that are left to read

  void run();
  void read_all();
};

DataCheck::DataCheck(comm::World& world, const std::vector<data::TokenFile>& files,
                     std::vector<ckpt::DataFile> described, const std::vector<ckpt::DataFile>& saved)
    : world_(world),
      described_(std::move(described)),
      marks_(files.size()),
      told_(seconds_now()),
      reading_(std::make_shared<Reading>()) {
  share_out(files, saved);
  if (reading_->files.empty())
    reading_->state = State::done;
  else
    thread_ = std::thread([reading = reading_] { reading->run(); });
}

DataCheck::~DataCheck() {
  if (!thread_.joinable()) return;
  reading_->stop = true;
  const double start = seconds_now();
  const bool fails =
      std::uncaught_exceptions() > 0;  // then the message comes first: other ranks wait 2 s for it
  while (!fails && !reading_->over && seconds_now() - start < leave_s)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  reading_->over ? thread_.join() : thread_.detach();
}

void DataCheck::share_out(const std::vector<data::TokenFile>& files,
                          const std::vector<ckpt::DataFile>& saved) {
  std::string identities;
  for (const data::TokenFile& file : files) identities += file.identity() + '\n';
  const auto all = world_.gather_strings(identities);
  const std::vector<std::string> dealt =
      lines_of(world_.broadcast(world_.rank() == 0 ? deal(all, files.size()) : std::string(), 0));
  for (std::size_t i = 0; i < files.size(); ++i)
    if (dealt.at(0).at(i) == 's') marks_[i] = files[i].identity();
  const auto is_verified = [&](std::size_t i) {
    return std::any_of(saved.begin(), saved.end(), [&](const ckpt::DataFile& file) {
      return !file.verified.empty() && file.verified == marks_[i] &&
             file.fingerprint == described_[i].fingerprint;
    });
  };
  for (std::size_t line = 1; line < dealt.size(); ++line) {
    const std::size_t place = std::stoul(dealt[line].substr(dealt[line].find(' ') + 1));
    if (std::stoi(dealt[line]) != world_.rank() || is_verified(place)) continue;
    reading_->files.push_back(files[place]);
    reading_->places.push_back(place);
    reading_->left += files[place].bytes();
  }
}

void DataCheck::Reading::run() {
  reset_affinity();
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), lowest_priority);  // this thread alone
  try {
    read_all();
    if (!stop) state = State::done;
  } catch (const std::exception& e) {
    problem = message_of(e);
    code = exit_code_of(e);
    state = State::failed;
  }
  over = true;
}

void DataCheck::Reading::read_all() {
  for (const data::TokenFile& file : files) {
    const std::int64_t left_after = left - file.bytes();
    const bool is_whole = data::check_body(file, [&](std::int64_t bytes) {
      left = left_after + file.bytes() - bytes;
      return !stop;
    });
    if (!is_whole) return;
    left = left_after;
    ++whole;
  }
}

DataCheck::State DataCheck::state() const {
  return reading_->state;
}

std::int64_t DataCheck::bytes_left() const {
  return reading_->left;
}

void DataCheck::tell(std::int64_t bytes_left) {
  const double now = seconds_now();
  if (left_then_ == 0) left_then_ = bytes_left;
  if (now - told_ < progress_s) return;
  const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  log::info("token files: a rank has {:.0f} MiB left to read, to verify their checksums, at {:.0f} MiB/s",
            mib(bytes_left), mib(left_then_ - bytes_left) / (now - told_));
  told_ = now;
  left_then_ = bytes_left;
}

void DataCheck::wait(double seconds) const {
  const double start = seconds_now();
  while (state() == State::under_way && seconds_now() - start < seconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void DataCheck::rethrow() const {
  if (state() == State::failed) throw Error(reading_->code, reading_->problem);
}

std::vector<ckpt::DataFile> DataCheck::verified() const {
  std::vector<double> unread(described_.size(), 0);
  for (std::size_t i = reading_->whole; i < reading_->places.size(); ++i) unread[reading_->places[i]] = 1;
  world_.all_reduce_max(unread);
  std::vector<ckpt::DataFile> files = described_;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (unread[i] == 0) files[i].verified = marks_[i];
  return files;
}

}  // namespace weft::train
