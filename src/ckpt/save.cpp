#include "ckpt/save.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "ckpt/directory.hpp"
#include "ckpt/fetch.hpp"
#include "ckpt/file.hpp"
#include "ckpt/index_file.hpp"
#include "ckpt/manifest.hpp"
#include "ckpt/shard_file.hpp"

namespace weft::ckpt {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t max_slab_bytes = std::int64_t{64} << 20;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Runs one rank's part of a phase; a failure becomes a line, so that the ranks can agree on it.
template <class Part>
std::string attempt(Part&& part) {
  try {
    part();
    return {};
  } catch (const std::exception& e) {
    return e.what()[0] != '\0' ? e.what() : "unknown error";
  }
}

/// One save: the phases in the order of their execution.
class Save {
 public:
  Save(const std::string& dir, const RunState& run, const std::vector<Unit>& units,
       std::span<const StateSlice> slices, const Hooks& hooks, const SaveOptions& options)
      : dir_(dir),
        name_(detail::step_name(run.step)),
        temporary_(dir + "/" + name_ + detail::unfinished_suffix),
        slices_(slices),
        hooks_(hooks),
        options_(options) {
    manifest_.dir = temporary_;
    manifest_.run = run;
    manifest_.units = units;
    manifest_.slab_bytes = options.slab_bytes;
    report_.path = dir + "/" + name_;
  }

  SaveReport operator()() {
    const auto start = Clock::now();
    const auto needs = hooks_.gather(std::to_string(bytes_needed()));
    if (agree(on_root([&] { prepare(needs); })) && write_shards() && agree(on_root([&] { commit(); }))) {
      report_.ok = true;
      report_.reason = on_root([&] { tidy(); });
      hooks_.barrier();  // nobody starts the next save while rank 0 removes leftovers
    } else {
      const std::string untidy = on_root([&] { fs::remove_all(temporary_); });
      if (!untidy.empty()) report_.reason += fmt::format("; and cannot remove {} ({})", temporary_, untidy);
      hooks_.barrier();
    }
    report_.seconds = seconds_since(start);
    return report_;
  }

 private:
  bool is_root() const { return hooks_.rank == 0; }

  template <class Part>
  std::string on_root(Part&& part) {
    return is_root() ? attempt(part) : std::string();
  }

  /// True when no rank has a problem; a barrier.
  bool agree(const std::string& problem) {
    const bool ok = hooks_.all_true(problem.empty());
    if (!ok) report_.reason = problem.empty() ? "another rank failed (the log of rank 0 says why)" : problem;
    return ok;
  }

  void stage(const char* name) const {
    if (options_.on_stage) options_.on_stage(name);
  }

  std::int64_t bytes_needed() const {
    std::int64_t bytes = std::int64_t{16} << 10;
    for (const StateSlice& s : slices_) bytes += s.count * static_cast<std::int64_t>(size_of(s.dtype)) + 1024;
    return bytes;
  }

  /// Rank 0: clears what an interrupted save left, checks the space, makes the directory.
  void prepare(const std::vector<std::string>& needs) {
    WEFT_VALIDATE(options_.slab_bytes >= 8 && options_.slab_bytes <= max_slab_bytes,
                  "slabs of {} bytes (they must be of 8 bytes to 64 MiB)", options_.slab_bytes);
    WEFT_VALIDATE(options_.alignment >= 1, "an alignment of {} bytes", options_.alignment);
    fs::create_directories(dir_);
    detail::sync_directory(fs::absolute(dir_).parent_path());
    detail::remove_unfinished(dir_);
    std::int64_t needed = 0;
    for (const auto& bytes : needs) needed += std::stoll(bytes);
    const std::int64_t free = detail::free_bytes(dir_);
    if (needed > free) {
      throw Error(
          ExitCode::bad_checkpoint,
          fmt::format("not enough space in {} ({} bytes are free, a checkpoint needs {}) free some, or lower "
                      "checkpoint.keep",
                      dir_, free, needed));
    }
    earlier_ = detail::scan(dir_);
    for (const auto& entry : earlier_) manifest_.serial = std::max(manifest_.serial, entry.serial);
    ++manifest_.serial;
    fs::create_directory(temporary_);
    stage("prepared");
  }

  /// Every rank writes its file, and rank 0 learns what they hold, or who failed and why.
  bool write_shards() {
    std::string message;
    const std::string problem = attempt([&] { message = detail::to_text(write_own_shard()); });
    const bool ok = agree(problem);
    const auto messages = hooks_.gather(ok ? message : problem);
    if (!is_root()) return ok;
    for (std::size_t rank = 0; rank < messages.size(); ++rank) {
      if (ok) {
        manifest_.shards.push_back(detail::shard_from_text(messages[rank]));
      } else if (!messages[rank].empty()) {
        report_.reason = fmt::format("rank {}: {}", rank, messages[rank]);
        break;
      }
    }
    return ok;
  }

  Shard write_own_shard() {
    const std::string path = temporary_ + "/" + detail::shard_name(hooks_.rank);
    Shard shard =
        detail::write_shard(path, slices_, manifest_.units, {options_.slab_bytes, options_.alignment});
    detail::sync_directory(temporary_);
    stage("shard_written");
    if (options_.read_back == ReadBack::yes) read_back(shard);
    report_.bytes = shard.bytes;
    return shard;
  }

  void read_back(const Shard& shard) {
    const auto start = Clock::now();
    const auto problems = detail::find_damage(manifest_, shard, detail::Source::storage);
    if (!problems.empty()) throw Error(ExitCode::bad_checkpoint, problems.front());
    report_.read_back_seconds = seconds_since(start);
  }

  /// Rank 0: index and manifest, then the name.
  void commit() {
    detail::check_coverage(manifest_);
    detail::check_files(manifest_);
    manifest_.saved_at = utc_now();
    const std::string index = temporary_ + "/" + index_name;
    detail::write_index(index, manifest_);
    stage("index_written");
    const std::string text = detail::read_text(index);
    manifest_.index_bytes = static_cast<std::int64_t>(text.size());
    manifest_.index_checksum = hash_text(text);
    detail::write_text_durably(temporary_ + "/" + manifest_name, detail::to_text(manifest_));
    detail::sync_directory(temporary_);
    stage("manifest_written");
    detail::publish(dir_, name_);
    report_.bytes = manifest_.bytes();
  }

  /// Rank 0: `latest`, and the checkpoints that are older than those to keep. The new one is never among
  /// them.
  void tidy() {
    stage("renamed");
    detail::move_latest(dir_, name_);
    stage("latest_moved");
    detail::remove_unfinished(dir_);
    std::int64_t kept = 1;
    for (const auto& entry : earlier_) {
      if (!entry.problem.empty() || entry.name == name_) continue;
      if (options_.keep > 0 && ++kept > options_.keep) detail::remove_checkpoint(dir_, entry.name);
    }
    stage("old_removed");
  }

  std::string dir_;
  std::string name_;
  std::string temporary_;
  std::span<const StateSlice> slices_;
  const Hooks& hooks_;
  const SaveOptions& options_;
  Manifest manifest_;
  std::vector<detail::Entry> earlier_;
  SaveReport report_;
};

}  // namespace

Hooks single_rank() {
  return Hooks{0, 1, [] {}, [](const std::string& text) { return std::vector{text}; },
               [](bool ok) { return ok; }};
}

SaveReport save(const std::string& checkpoints_dir, const RunState& run, const std::vector<Unit>& units,
                std::span<const StateSlice> slices, const Hooks& hooks, const SaveOptions& options) {
  return Save(checkpoints_dir, run, units, slices, hooks, options)();
}

}  // namespace weft::ckpt
