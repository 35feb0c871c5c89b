#include "train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "ops/storages.hpp"
#include "passes/passes.hpp"
#include "train/agree.hpp"
#include "train/checkpointing.hpp"
#include "train/continuation.hpp"
#include "train/first_nonfinite.hpp"
#include "train/flops.hpp"
#include "train/learning_rate.hpp"
#include "train/machine_profile.hpp"
#include "train/memory_usage.hpp"
#include "train/preflight.hpp"
#include "train/run_plans.hpp"
#include "train/slowest_rank.hpp"

namespace weft::train {
namespace {

/// Of the trace: what is done beside the plan's instructions.
constexpr exec::TraceRow host_row(lane_count);

}  // namespace

Trainer::Trainer(const Deck& deck, comm::World& world, std::unique_ptr<data::BatchSource> batches)
    : deck_(deck),
      session_(deck, world),
      buffers_(deck.data.batch, deck.data.seq),
      batches_(std::move(batches)),
      bad_steps_(deck) {
  start_ = seconds_now();
  flops_per_token_ = flops_per_token(model_size(deck));
  agree(world, [&] { open_data(); });
  build();
  measure_compute_only();
  const std::string note = initialise_or_resume();
  agree(world, [&] {  // not before all that may refuse the deck: the directory may be another run's
    if (world.rank() == 0) make_run_directory(deck_);
  });
  report_ = std::make_unique<Report>(deck_, world.rank(), resumed_at_, about_);
  const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  report_->note(fmt::format(
      "{}: {} parameters, {} on {} ranks, plan {:016x}: {} instructions, arena {:.1f} MiB, state {:.1f} MiB, "
      "baseline {:.1f} MiB: {:.1f} MiB a rank",
      deck_.run.name, parameter_count(deck_.model), name_of(deck_.parallel.mode), session_.ranks(),
      plan().hash, plan().instructions.size(), mib(memory_.arena), mib(memory_.state), mib(memory_.baseline),
      mib(memory_.peak())));
  report_->note(schedule_);
  if (!kernels::device_is_host()) report_->note(std::string(exec::text_of(train_->capture())));
  if (step_ > 0) report_->note(fmt::format("continues from step {}", step_));
  if (!note.empty()) report_->note(note);
}

Trainer::~Trainer() = default;

void Trainer::open_data() {
  const data::BatchShape shape{deck_.data.batch, deck_.data.global_batch, deck_.data.seq};
  const auto seed = static_cast<std::uint64_t>(deck_.run.seed);
  if (batches_) return;
  if (deck_.data.synthetic) {
    batches_ = data::synthetic_batches(seed, deck_.model.vocab, shape);
    return;
  }
  data::Windows train = open_windows(deck_, deck_.data.train, "data.train");
  if (!deck_.data.valid.empty()) {
    data::Windows valid = open_windows(deck_, deck_.data.valid, "data.valid");
    data::check_same_tokenizer(valid.files()[0], train.files()[0]);  // else bits per byte mean nothing
    valid_.emplace(std::move(valid), deck_.data.batch, deck_.data.valid_sequences);
  }
  batches_ = data::file_batches(data::Sampler(std::move(train), seed), shape);
}

void Trainer::build() {
  const machine::CostModel costs(machine_profile(deck_, session_.world()));
  shared_before_ = memory_usage().shared_bytes;
  RunPlans plans;
  session_.reserve([&] {
    plans = make_run_plans(deck_, session_, costs, valid_.has_value());
    std::vector<const plan::Plan*> all{&plans.train};
    if (plans.evaluate) all.push_back(&*plans.evaluate);
    return all;
  });
  memory_ = plans.memory;
  schedule_ = std::move(plans.schedule);
  about_ = {session_.ranks(), 0, plans.step,
            fmt::format("{} ({})", profile_source(deck_), costs.profile().name)};
  persistent_bytes_ = session_.memory().storage_bytes();
  train_ = session_.bind(std::move(plans.train));
  if (plans.evaluate) {
    evaluate_ = session_.bind(std::move(*plans.evaluate));
    validation_ =
        std::make_unique<Validation>(session_, *evaluate_, *valid_, deck_.data.batch, deck_.data.seq);
  }
  state_ = std::make_unique<ModelState>(session_, train_->plan());
  if (deck_.debug.hash_every > 0) hashes_ = std::make_unique<ValueHashes>(session_, train_->plan());
  upload_rope_table(session_, deck_);
}

/// The median of three runs without collectives, on the zeroed state, after one that warms caches and
/// libraries. All ranks measure at once, because they share memory bandwidth in a real step, too.
void Trainer::measure_compute_only() {
  if (session_.ranks() == 1) return;  // no communication to expose: every step is such a step
  upload_inputs();
  train_->run(exec::Run::compute_only);
  std::array<double, 3> seconds{};
  for (double& s : seconds) {
    session_.world().barrier();
    s = train_->run(exec::Run::compute_only).step;
  }
  std::sort(seconds.begin(), seconds.end());
  about_.compute_only_s = seconds[1];
}

std::string Trainer::initialise_or_resume() {
  const auto checkpoint = find_checkpoint(deck_, session_.world());
  const ckpt::RunState run = start_from(checkpoint);
  if (!checkpoint) return {};
  // The curve of another run's checkpoint does not belong to this run's files.
  if (is_own_checkpoint(deck_, *checkpoint)) resumed_at_ = step_;
  return changes_since(run, deck_);
}

ckpt::RunState Trainer::start_from(const std::optional<std::string>& checkpoint) {
  ckpt::RunState run;
  if (checkpoint) {
    run = load_checkpoint(*checkpoint, deck_, session_.world(), *state_);
    agree(session_.world(), [&] { check_continues(run, deck_, *checkpoint); });
  } else {
    state_->initialize(static_cast<std::uint64_t>(deck_.run.seed), deck_.model.init_std);
  }
  step_ = run.step;
  tokens_ = run.tokens;
  sample_ = run.sample;
  saved_step_ = checkpoint ? step_ : -1;
  last_checkpoint_ = checkpoint;
  return run;
}

void Trainer::upload_inputs() {
  upload_step(session_, *batches_, sample_ / deck_.data.global_batch, accumulation(deck_, session_.ranks()),
              buffers_);
  buffers_.upload(session_, step_block(deck_, step_));
}

void Trainer::start_trace() {
  trace_ = exec::Trace(plan().instructions.size(), {"host"});
  trace_.set_step(step_ + 1);
  session_.world().barrier();
  trace_.set_origin(exec::Trace::now_ns());
}

void Trainer::write_trace() {
  if (!trace_.on()) return;
  const auto all =
      session_.world().gather_strings(trace_.events(session_.world().rank(), session_.world().host()));
  if (session_.world().rank() == 0) exec::write_trace(deck_.run.dir + "/trace.json", all);
  trace_ = {};
}

StepMetrics Trainer::train_step() {
  if (step_ + 1 == deck_.log.trace_step) start_trace();
  const double start = seconds_now();
  {
    const exec::TraceScope scope(trace_, host_row, {.name = "inputs", .category = "host"});
    upload_inputs();
  }
  ValueHashes* const tap = hashes_after(step_ + 1) ? hashes_.get() : nullptr;
  const exec::Times times = train_->run(exec::Run::full, &trace_, tap);
  const double seconds = seconds_now() - start;
  ++step_;
  sample_ += deck_.data.global_batch;
  if (tap != nullptr) report_->hashes(tap->finish(step_));
  return collect(times, seconds);
}

StepMetrics Trainer::collect(const exec::Times& times, double step_seconds) {
  std::array<float, 4> report{};  // gradient norm, scale (NaN: no update), mean loss, token count
  kernels::copy_to_host(session_.space(), report.data(), session_.memory().storage(passes::report_name),
                        sizeof report);
  std::array<double, 2> totals{};  // sum of the losses, token count
  kernels::copy_to_host(session_.space(), totals.data(), session_.memory().storage(ops::totals_name),
                        sizeof totals);
  StepMetrics m =
      slowest_rank(session_, times, step_seconds, about_.compute_only_s, {resident_bytes(), memory_.peak()});
  m.step = step_;
  m.loss = totals[0] / totals[1];
  m.grad_norm = report[0];
  m.updated = std::isfinite(report[1]);
  m.lr = learning_rate(schedule_of(deck_), step_ - 1);
  m.tokens = static_cast<std::int64_t>(totals[1]);
  m.tokens_per_s = static_cast<double>(m.tokens) / m.step_s;
  m.mfu = mfu(m.tokens_per_s, flops_per_token_, 1e12 * deck_.log.peak_tflops * session_.ranks());
  m.arena_peak_bytes = plan().peak_bytes();
  m.persistent_bytes = persistent_bytes_;
  if (hashes_after(step_)) m.state_hash = state_->hash();
  tokens_ += m.tokens;
  return m;
}

/// Of the team's window this rank answers for its own part, whatever of the others' it has looked at.
std::int64_t Trainer::resident_bytes() const {
  const MemoryUsage usage = memory_usage();
  const std::int64_t window = session_.memory().window_bytes();
  return window == 0 ? usage.rss_bytes : usage.rss_bytes - usage.shared_bytes + shared_before_ + window;
}

std::optional<StepMetrics> Trainer::validate() {
  if (!validation_) return std::nullopt;
  const exec::TraceScope scope(trace_, host_row, {.name = "validation", .category = "host"});
  const ValidationResult result = validation_->run();
  std::array<double, 3> largest{result.seconds, static_cast<double>(resident_bytes()),
                                static_cast<double>(memory_.peak())};
  session_.world().all_reduce_max(largest);
  StepMetrics m;
  m.kind = MetricsKind::valid;
  m.step = step_;
  m.loss = result.loss;
  m.bits_per_byte = result.bits_per_byte;
  m.tokens = result.tokens;
  m.step_s = largest[0];
  m.tokens_per_s = static_cast<double>(result.tokens) / m.step_s;
  m.arena_peak_bytes = plan().peak_bytes();
  m.persistent_bytes = persistent_bytes_;
  m.rss_bytes = static_cast<std::int64_t>(largest[1]);
  m.planned_bytes = static_cast<std::int64_t>(largest[2]);
  return m;
}

bool Trainer::save() {
  if (saved_step_ == step_) return true;
  const exec::TraceScope scope(trace_, host_row, {.name = "checkpoint", .category = "host"});
  const double start = seconds_now();
  const ckpt::SaveReport report = save_checkpoint(deck_, session_, *state_, step_, tokens_, sample_);
  if (report.ok) {
    longest_save_ = std::max(longest_save_.value_or(0), seconds_now() - start);
    saved_step_ = step_;
    last_checkpoint_ = report.path;
    report_->note(fmt::format("saved {} ({:.1f} MiB in {:.2f} s)", report.path,
                              static_cast<double>(report.bytes) / (1 << 20), report.seconds));
  }
  if (!report.reason.empty() && session_.world().rank() == 0)
    log::warn("checkpoint of step {}: {}{}", step_, report.reason,
              report.ok ? "" : "; the earlier checkpoints are whole");
  return report.ok;
}

/// All ranks have the same loss and norm; rank 0 speaks.
bool Trainer::goes_on_after(const StepMetrics& metrics) {
  const std::optional<Nonfinite> what = bad_steps_.after(metrics);
  if (!what) return true;
  if (deck_.debug.nan == NanSearch::locate) locate_nonfinite(metrics);
  const bool speaks = session_.rank() == 0;
  const std::string bad = bad_steps_.describe(metrics);
  switch (*what) {
    case Nonfinite::stop:
      throw Error(ExitCode::failure, speaks ? fmt::format("{} (the run has diverged); {}", bad,
                                                          bad_steps_.advice(last_checkpoint_))
                                            : "");
    case Nonfinite::skip:
      if (speaks) log::warn("{}; its update is left out", bad);
      return true;
    case Nonfinite::rollback: break;
  }
  roll_back();
  if (speaks)
    log::warn("{}; back to step {}, {}; it goes on with sample {}", bad, step_,
              last_checkpoint_.value_or("the initial weights"), sample_);
  return false;
}

/// The state is as before the step, and the inputs are still there: it runs with the same bits.
void Trainer::locate_nonfinite(const StepMetrics& metrics) {
  FirstNonfinite first(session_, plan());
  train_->run(exec::Run::full, nullptr, &first);
  const std::string found = first.finish();
  if (session_.rank() == 0) log::warn("step {}: {}", metrics.step, found);
}

/// The data that led here are left out, because they would lead here again.
void Trainer::roll_back() {
  const std::int64_t next = sample_;
  start_from(last_checkpoint_);
  sample_ = next;
  agree(session_.world(), [&] { report_->go_back(step_); });
}

/// Seconds from now until another step, its validation if one is due, and a save would be done, on this rank.
/// Each may take as long as the longest so far, the step twice. What has not been timed yet is guessed: a
/// validation's round as a training step's, a save as 100 MB/s.
double Trainer::seconds_to_next_save() const {
  double seconds = 2 * longest_step_;
  if (validation_ && validates_after(step_ + 1)) {
    const double rounds = std::ceil(static_cast<double>(valid_->microbatches()) / session_.ranks());
    const auto step_rounds = static_cast<double>(accumulation(deck_, session_.ranks()));
    seconds += longest_validation_.value_or(longest_step_ * rounds / step_rounds);
  }
  return seconds + longest_save_.value_or(static_cast<double>(state_->own_bytes()) / 1e8);
}

/// Whether run.walltime is too near for another step. All ranks agree.
bool Trainer::out_of_time() {
  if (deck_.run.walltime <= 0) return false;
  double until = seconds_now() - start_ + seconds_to_next_save();
  session_.world().all_reduce_max(std::span(&until, 1));
  return until > deck_.run.walltime;
}

/// A job that starts again from an older checkpoint would come here again: it is not unfinished, but stuck.
void Trainer::fail_unsaved() const {
  if (session_.rank() != 0) throw Error(ExitCode::failure, "");
  throw Error(
      ExitCode::failure,
      fmt::format(
          "run.walltime is near and step {} could not be saved (see the warning above); make room in {}, "
          "and start again from the newest checkpoint there",
          step_, checkpoints_dir(deck_)));
}

bool Trainer::hashes_after(std::int64_t step) const {
  return deck_.debug.hash_every > 0 && step % deck_.debug.hash_every == 0;
}

bool Trainer::validates_after(std::int64_t step) const {
  return step == deck_.run.steps || (deck_.data.valid_every > 0 && step % deck_.data.valid_every == 0);
}

bool Trainer::saves_after(std::int64_t step) const {
  return (step == deck_.run.steps && deck_.checkpoint.final) ||
         (deck_.checkpoint.every > 0 && step % deck_.checkpoint.every == 0);
}

Outcome Trainer::run() {
  if (step_ == 0 && deck_.checkpoint.initial) save();
  Outcome outcome = Outcome::finished;
  while (step_ < deck_.run.steps && outcome == Outcome::finished) {
    const StepMetrics metrics = train_step();
    longest_step_ = std::max(longest_step_, metrics.step_s);
    report_->train(metrics);
    const bool goes_on = goes_on_after(metrics);
    if (goes_on && validates_after(step_))
      if (const auto valid = validate()) {
        longest_validation_ = std::max(longest_validation_.value_or(0), valid->step_s);
        report_->validation(*valid);
      }
    if (goes_on && saves_after(step_)) save();
    write_trace();
    if (step_ < deck_.run.steps && out_of_time()) {
      if (!save()) fail_unsaved();
      report_->note(fmt::format(
          "run.walltime is near: stopped after step {} of {}; start again with the same deck to continue",
          step_, deck_.run.steps));
      outcome = Outcome::out_of_time;
    }
  }
  report_->finish();
  return outcome;
}

}  // namespace weft::train
