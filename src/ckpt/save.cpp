#include "ckpt/save.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "base/affinity.hpp"
#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "ckpt/attempt.hpp"
#include "ckpt/description.hpp"
#include "ckpt/directory.hpp"
#include "ckpt/fetch.hpp"
#include "ckpt/index_file.hpp"
#include "ckpt/manifest.hpp"
#include "ckpt/save_place.hpp"
#include "ckpt/shard_file.hpp"
#include "ckpt/stored_files.hpp"
#include "io/file.hpp"

namespace weft::ckpt {

namespace {

constexpr std::int64_t max_slab_bytes = std::int64_t{64} << 20;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

/// The parts of a save. Each part runs on a thread of its own, on the ranks that have something to do in it,
/// and the ranks agree between the parts.
struct Save::Impl {
  Impl(const std::string& dir, const RunState& run, const std::vector<Unit>& units,
       std::vector<StateSlice> slices, Hooks hooks, const SaveOptions& options)
      : place_(dir, run.step, {options.keep, options.keep_every}),
        slices_(std::move(slices)),
        hooks_(std::move(hooks)),
        options_(options) {
    manifest_.run = run;
    manifest_.units = units;
    manifest_.slab_bytes = options.slab_bytes;
    report_.path = dir + "/" + detail::step_name(run.step);
    const auto needs = hooks_.gather(std::to_string(bytes_needed()));
    begin(Part::prepare, is_root(), [this, needs] { prepare(needs); });
  }

  bool advance(WaitForEnd wait) {
    // Ten thousand ranks have a hundred such parts, each of a fraction of a second: not one a step.
    const auto patience = std::chrono::milliseconds(200);
    const auto end = Clock::now() + patience;
    while (part_ != Part::ended) {
      const auto until = part_ == Part::describe && !overdue_ ? end : Clock::now();
      overdue_ = wait == WaitForEnd::no && job_.wait_until(until) != std::future_status::ready;
      if (wait == WaitForEnd::no && !hooks_.all_true(!overdue_)) return false;
      go_on(job_.get());
    }
    return true;
  }

  const SaveReport& report() const { return report_; }

 private:
  enum class Part : std::uint8_t { prepare, write, describe, commit, tidy, clean, ended };

  bool is_root() const { return hooks_.rank == 0; }

  /// Starts a part; `mine` says whether this rank has something to do in it.
  template <class Work>
  void begin(Part part, bool mine, Work work) {
    part_ = part;
    if (!mine) {
      std::promise<std::string> nothing;
      nothing.set_value({});
      job_ = nothing.get_future();
      return;
    }
    job_ = std::async(std::launch::async, [work = std::move(work)] {
      reset_affinity();  // a compute thread's core is not for checksums and copies
      return detail::attempt(work);
    });
  }

  /// Collective: ends the part on all ranks and starts the next one. `problem` is this rank's, or empty.
  void go_on(const std::string& problem) {
    switch (part_) {
      case Part::prepare:
        if (!agree(problem)) return clean();
        manifest_.dir = hooks_.broadcast(place_.temporary());
        return begin(Part::write, true, [this] { line_ = detail::to_line(write_own_shard()); });
      case Part::write:
        if (!all_wrote(problem)) return clean();
        return collect_shards();
      case Part::describe:
        if (!agree(problem)) return clean();
        return collect_shards();
      case Part::commit:
        if (!agree(problem)) return clean();
        report_.ok = true;
        return begin(Part::tidy, is_root(), [this] { tidy(); });
      case Part::tidy:
      case Part::clean: place_.remark(problem); return end();
      case Part::ended: return;
    }
  }

  /// Removes what this save began. Leftovers of earlier saves were dealt with when it began.
  void clean() {
    begin(Part::clean, is_root(), [this] { place_.clear(); });
  }

  /// Ends the save on all ranks together, so that nobody starts the next one while rank 0 removes leftovers.
  void end() {
    hooks_.barrier();
    for (const std::string& remark : place_.remarks())
      report_.reason += (report_.reason.empty() ? "" : "; ") + remark;
    report_.seconds = seconds_since(start_);
    part_ = Part::ended;
  }

  /// Whether no rank has a problem. All ranks wait for each other here.
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

  /// The part `prepare`, on rank 0: checks that there is room, and makes the directory.
  void prepare(const std::vector<std::string>& needs) {
    WEFT_REQUIRE(options_.slab_bytes >= 8 && options_.slab_bytes <= max_slab_bytes,
                 "slabs of {} bytes (they must be of 8 bytes to 64 MiB)", options_.slab_bytes);
    WEFT_REQUIRE(options_.alignment >= 1, "an alignment of {} bytes", options_.alignment);
    std::int64_t needed = 0;
    for (const auto& bytes : needs) needed += std::stoll(bytes);
    place_.prepare(needed);
    manifest_.serial = place_.serial();
    stage("prepared");
  }

  /// Tells rank 0 who failed and why, and all ranks how many ranks' lines it takes at a time.
  bool all_wrote(const std::string& problem) {
    const bool ok = agree(problem);
    const auto told = hooks_.gather(ok ? std::to_string(line_.size()) : problem);
    if (!ok) {
      const auto failed = std::find_if(told.begin(), told.end(), [](const auto& p) { return !p.empty(); });
      if (failed != told.end()) report_.reason = fmt::format("rank {}: {}", failed - told.begin(), *failed);
      return false;
    }
    std::size_t longest = 0;
    for (const auto& bytes : told) longest = std::max<std::size_t>(longest, std::stoull(bytes));
    at_once_ = std::stoi(hooks_.broadcast(std::to_string(detail::ranks_at_once(longest))));
    return true;
  }

  /// The next ranks send their lines to rank 0, whose thread writes them. After the last lines, that thread
  /// commits.
  void collect_shards() {
    const int first = collected_;
    collected_ = std::min(hooks_.size, first + std::min(at_once_, hooks_.size));
    const bool mine = first <= hooks_.rank && hooks_.rank < collected_;
    auto lines = hooks_.gather(mine ? std::exchange(line_, {}) : std::string());
    if (is_root()) lines = {lines.begin() + first, lines.begin() + collected_};
    const bool last = collected_ == hooks_.size;
    begin(last ? Part::commit : Part::describe, is_root(), [this, last, lines = std::move(lines)] {
      if (!description_) description_.emplace(manifest_.dir, manifest_);
      description_->add(lines);
      if (last) commit();
    });
  }

  Shard write_own_shard() {
    if (options_.await_slices) options_.await_slices();
    const auto start = Clock::now();
    const std::string path = manifest_.dir + "/" + detail::shard_name(hooks_.rank);
    Shard shard = detail::write_shard(path, slices_, manifest_.units,
                                      {options_.slab_bytes, options_.alignment, options_.direct_io});
    io::sync_directory(manifest_.dir);
    report_.write_seconds = seconds_since(start);
    stage("shard_written");
    if (options_.read_back == ReadBack::yes) read_back(shard);
    report_.bytes = shard.state_bytes();
    return shard;
  }

  void read_back(const Shard& shard) {
    const auto start = Clock::now();
    const auto problems = find_damage(manifest_, shard, options_.direct_io);
    if (!problems.empty()) throw Error(ExitCode::bad_checkpoint, problems.front());
    report_.read_back_seconds = seconds_since(start);
  }

  void write_index() {
    const std::string index = manifest_.dir + "/" + index_name;
    detail::write_index(index, manifest_, description_->indexed());
    const std::string text = io::read_text(index);
    manifest_.index = Digest{static_cast<std::int64_t>(text.size()), hash_text(text)};
  }

  /// Rank 0 writes descriptions, index and manifest, and then gives the checkpoint its name.
  void commit() {
    description_->finish(manifest_);
    detail::check_files(manifest_);
    manifest_.saved_at = utc_now();
    if (!description_->indexed().empty()) write_index();
    stage("index_written");
    io::write_text_durably(manifest_.dir + "/" + manifest_name, detail::to_text(manifest_));
    io::sync_directory(manifest_.dir);
    stage("manifest_written");
    place_.publish();
    report_.bytes = manifest_.bytes();
  }

  /// The part `tidy`, on rank 0: removes the checkpoints that are no longer kept.
  void tidy() {
    stage("renamed");
    place_.tidy([this](const char* name) { stage(name); });
    stage("old_removed");
  }

  detail::SavePlace place_;  ///< used on rank 0 only
  std::vector<StateSlice> slices_;
  Hooks hooks_;
  SaveOptions options_;
  Clock::time_point start_ = Clock::now();
  Manifest manifest_;
  std::string line_;   ///< describes this rank's shard, until rank 0 has it
  int at_once_ = 1;    ///< ranks whose lines are gathered together
  int collected_ = 0;  ///< ranks whose lines rank 0 has
  std::optional<detail::Description> description_;
  SaveReport report_;
  Part part_ = Part::prepare;
  bool overdue_ = false;  ///< a wait for the part under way has run out: the next steps do not wait again
  /// Returns this rank's problem; it is last, because its thread uses all of the above.
  std::future<std::string> job_;
};

Save::Save(const std::string& checkpoints_dir, const RunState& run, const std::vector<Unit>& units,
           std::vector<StateSlice> slices, Hooks hooks, const SaveOptions& options)
    : impl_(std::make_unique<Impl>(checkpoints_dir, run, units, std::move(slices), std::move(hooks),
                                   options)) {}
Save::~Save() = default;

bool Save::advance(WaitForEnd wait) {
  return impl_->advance(wait);
}

const SaveReport& Save::report() const {
  return impl_->report();
}

SaveReport save(const std::string& checkpoints_dir, const RunState& run, const std::vector<Unit>& units,
                std::span<const StateSlice> slices, const Hooks& hooks, const SaveOptions& options) {
  Save whole(checkpoints_dir, run, units, {slices.begin(), slices.end()}, hooks, options);
  whole.advance(WaitForEnd::yes);
  return whole.report();
}

}  // namespace weft::ckpt
