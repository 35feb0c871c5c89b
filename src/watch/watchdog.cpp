#include "watch/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/done_within.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "io/named_path.hpp"
#include "io/storage_wait.hpp"
#include "watch/diagnose.hpp"
#include "watch/records.hpp"

namespace weft::watch {
namespace {

namespace fs = std::filesystem;

/// How long to be patient with a file system, or an abort, that may hang, too.
constexpr double patience_s = 10;
/// How long a rank whose library of channels has failed leaves it to others to end the run. Where another
/// rank ends by an error of its own, the libraries of its neighbours fail, and its line and its code are the
/// ones that tell what was wrong.
constexpr double precedence_s = 2;

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Whether a file is there. A file system that does not answer counts as no, because the next look may tell.
bool exists(const std::string& path) {
  std::error_code unknown;
  return fs::exists(path, unknown);
}

/// The shorter timeout of the two that are set; 0 when none is.
double least_timeout(const WatchdogOptions& options) {
  const double a = options.timeout_s, b = options.storage_timeout_s;
  return a > 0 && b > 0 ? std::min(a, b) : std::max({a, b, 0.0});
}

std::string verdict_path(const std::string& dir) {
  return dir + "/verdict.txt";
}

/// What a rank does: "start-up", or "step 118".
std::string doing(std::string_view activity, std::int64_t step) {
  return step > 0 ? fmt::format("{} {}", activity, step) : std::string(activity);
}

void end_all(comm::World& world, int exit_code) {
  std::thread([exit_code] {  // MPI may be what hangs
    sleep(patience_s);
    std::_Exit(exit_code);
  })
      .detach();
  world.abort(exit_code);
}

}  // namespace

Watchdog::Watchdog(comm::World& world, WatchdogOptions options)
    : world_(world),
      options_(std::move(options)),
      least_timeout_s_(least_timeout(options_)),
      look_s_(std::min(2.0, least_timeout_s_ / 4)),
      grace_s_(2 * look_s_ + 1) {
  if (least_timeout_s_ > 0) {
    dir_ = options_.run_dir + "/hang/" + world_.broadcast(utc_now_for_names(), 0);
    look_.emplace(dir_);
  }
  thread_ = std::thread([this] { loop(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watchdog::loop() {
  const double period_s = least_timeout_s_ > 0 ? std::clamp(least_timeout_s_ / 20, 0.01, 1.0) : 1.0;
  double before = seconds_now();
  double awake_since = before;
  std::unique_lock lock(mutex_);
  const auto stopped_within = [&](double seconds) {
    return wake_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return stop_; });
  };
  while (!stopped_within(period_s)) {
    // Where nothing is waited for, the next call tells, and a rank that leaves at the run's end is no
    // failure.
    if (const std::string failure = world_.failure();
        !failure.empty() && world_.recorder().oldest_waiting()) {
      if (!stopped_within(precedence_s)) end_by_failure(failure);
      return;
    }
    const double now = seconds_now();
    // Somebody has stopped this process, perhaps together with the others. From here on all have their full
    // time again.
    if (now - before > period_s + 2) {
      awake_since = now;
      looked_s_ = 0;
    }
    before = now;
    if (hangs(now - awake_since)) return end();
  }
}

/// Whether a call or storage is overdue here, or another rank has found one that is. `awake_s` is how long
/// this process has run without having been stopped. It waits for nothing, because storage that does not
/// answer would stop the clock.
bool Watchdog::hangs(double awake_s) {
  const comm::Recorder& recorder = world_.recorder();
  const auto seconds_since = [&](std::int64_t ns) {
    return std::min(awake_s, 1e-9 * static_cast<double>(comm::Recorder::now_ns() - ns));
  };
  const auto storage = io::oldest_storage_wait();
  if (storage && options_.storage_timeout_s > 0 &&
      std::min(awake_s, seconds_now() - storage->since) > options_.storage_timeout_s)
    return true;
  const auto waiting = recorder.oldest_waiting();
  if (waiting && options_.timeout_s > 0 && seconds_since(waiting->started_ns) > options_.timeout_s)
    return true;
  if (!look_ || world_.size() == 1 || !looks_out_) return false;
  if (seconds_since(recorder.last_ns()) <= std::min(10.0, least_timeout_s_ / 2)) return false;
  if (awake_s - looked_s_ >= look_s_) {
    looked_s_ = awake_s;
    look_->begin();
  }
  return look_->found();
}

void Watchdog::end() {
  // Files may hang, and the run has to end all the same.
  done_within(2 * grace_s_ + patience_s, [this] { tell(); });
  const auto code = static_cast<int>(ExitCode::hang);
  if (options_.end) return options_.end(code);
  end_all(world_, code);
}

void Watchdog::end_by_failure(const std::string& failure) {
  const comm::RecordedCalls now = world_.recorder().read();
  const std::string line =
      fmt::format("on {}, in {}: {}", world_.host(), doing(now.activity, now.step), failure);
  done_within(patience_s, [line] { log::write_error(line); });  // the log's storage may not answer
  const auto code = static_cast<int>(ExitCode::comm_failure);
  if (options_.end) return options_.end(code);
  end_all(world_, code);
}

void Watchdog::tell() noexcept {
  // What cannot be done is reported, and the rest is done.
  const auto attempt = [](const auto& part) {
    try {
      part();
    } catch (const std::exception& e) {
      log::error("hang: {}", e.what());
    }
  };
  std::string waits_for;
  attempt([&] { waits_for = leave_records(); });
  attempt([&] {
    if (verdict_within(grace_s_) || !speaks_for_all()) {
      tell_missing(waits_for);
    } else {
      tell_verdict();
    }
  });
  sleep(1);  // the others need time to speak: the first rank to end the run ends them all
}

/// Says and records what this rank does, and returns what it waits for; empty when it waits for nothing.
std::string Watchdog::leave_records() {
  const RankRecords mine = records_of(world_.recorder(), world_.rank(), world_.size(), world_.host());
  const Call* const call = waits_for(mine);
  const std::string what = call == nullptr ? std::string() : describe(mine, *call);
  const std::string activity = doing(mine.activity, mine.step);
  if (!mine.storage.empty()) {
    log::error("hang: on {}, in {}: waits for storage, {} for {:.1f} s", mine.host, activity, mine.storage,
               mine.written - mine.storage_since);
  } else if (call == nullptr) {
    log::error("hang: on {}, in {} for {:.1f} s; waits for no rank", mine.host, activity,
               mine.written - mine.since);
  } else {
    log::error("hang: on {}, in {}: waits for {} for {:.1f} s", mine.host, activity, what,
               mine.written - call->started);
  }
  // A rank that was stopped, and is woken because the others end the run, comes after the verdict: what it
  // does now is not what it did when they waited for it.
  if (exists(verdict_path(dir_))) return what;
  try {
    fs::create_directories(dir_);
    write_records(dir_, mine);
  } catch (const std::exception& e) {
    log::error("hang: this rank's records are lost: {}", e.what());
  }
  return what;
}

bool Watchdog::speaks_for_all() const {
  for (int rank = 0; rank < world_.rank(); ++rank)
    if (exists(records_path(dir_, rank))) return false;
  return true;
}

void Watchdog::tell_verdict() const {
  std::vector<std::string> hosts = world_.hosts();
  for (std::size_t rank = 0; rank < std::min(hosts.size(), options_.places.size()); ++rank)
    if (!options_.places[rank].empty()) hosts[rank] += fmt::format(" ({})", options_.places[rank]);
  write_hosts(dir_, hosts);
  const Diagnosis d = diagnose(read_records(dir_), hosts);
  const std::string text = text_of(d);
  for (const WaitingCall& wait : d.waits) log::error("hang: {}", text_of(wait));
  log::error("hang: first to diverge: {}; records in {}", d.verdict, dir_);
  write_text(verdict_path(dir_), text);
}

bool Watchdog::verdict_within(double seconds) const {
  const double start = seconds_now();
  bool is_there = false;
  while (!(is_there = exists(verdict_path(dir_))) && seconds_now() - start < seconds) sleep(0.05);
  return is_there;
}

/// Waits for the verdict, and repeats what it says about the call that this rank waits for.
void Watchdog::tell_missing(const std::string& waits_for) const {
  verdict_within(grace_s_ + 5);
  std::ifstream file(verdict_path(dir_));
  for (std::string line; !waits_for.empty() && std::getline(file, line);)
    if (line.starts_with(waits_for)) log::error("hang: {}", line);
}

std::string newest_records(const std::string& run_dir) {
  std::string newest;
  const std::string dir = run_dir + "/hang";
  if (io::is_there(dir))
    for (const std::string& name : io::names_in(dir))
      if (io::is_directory(dir + "/" + name)) newest = dir + "/" + name;  // names are in order
  WEFT_VALIDATE(!newest.empty(),
                "{}/hang: no records (no run has hung there, or none of its ranks could write); give a run's "
                "directory",
                run_dir);
  return newest;
}

}  // namespace weft::watch
