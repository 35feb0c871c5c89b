#include "train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/device.hpp"
#include "base/log.hpp"
#include "comm/agree.hpp"
#include "compile/machine_profile.hpp"
#include "kernels/matmul.hpp"
#include "ops/storages.hpp"
#include "passes/passes.hpp"
#include "report/flops.hpp"
#include "runtime/machine_profile.hpp"
#include "runtime/memory_usage.hpp"
#include "runtime/preflight.hpp"
#include "runtime/run_plans.hpp"
#include "runtime/same.hpp"
#include "train/checkpointing.hpp"
#include "train/continuation.hpp"
#include "train/data_files.hpp"
#include "train/initial_weights.hpp"
#include "train/learning_rate.hpp"
#include "train/starting_point.hpp"

namespace weft::train {
namespace {

/// Of the trace: what is done beside the plan's instructions.
constexpr exec::TraceRow host_row(lane_count);

}  // namespace

Trainer::Trainer(const Deck& deck, comm::World& world, std::unique_ptr<data::BatchSource> batches,
                 std::function<void()> on_directory)
    : deck_(deck),
      session_(deck, world),
      on_directory_(std::move(on_directory)),
      stop_(deck.run.dir, world.rank()),
      buffers_(deck.data.batch, deck.data.seq),
      batches_(std::move(batches)),
      bad_steps_(deck) {
  start_ = seconds_now();
  comm::agree(world, [&] {  // before a second job takes cores and memory of the first
    if (world.rank() == 0)
      directory_.emplace(deck.run.dir, [&world](const std::string& why) {
        log::write_error(why);
        world.abort(static_cast<int>(ExitCode::failure));
      });
  });
  runtime::check_same_machine(world, deck);
  check_directory();
  flops_per_token_ = report::flops_per_token(report::model_size(deck));
  comm::agree(world, [&] { open_data(); });
  check_same_files(world, data_);
  build();
  const std::string note = initialise_or_resume();
  start_data_check();
  measure_compute_only();
  make_directory();  // not before all that may refuse the deck: the directory may be another run's
  set_aside(damaged_, world);
  report_ = std::make_unique<report::Report>(deck_, world.rank(), world.hosts(), resumed_at_, about_);
  saver_ = std::make_unique<Saver>(deck_, session_, *state_, *report_, description(), background_);
  if (resumed_at_)
    saver_->set_saved(step_, *resumed_from_);
  else if (resumed_from_)
    saver_->set_start(*resumed_from_);
  const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  report_->note(fmt::format(
      "{}: {} parameters, {} on {} ranks, plan {:016x}: {} instructions, arena {:.1f} MiB, state {:.1f} MiB, "
      "baseline {:.1f} MiB{}: {:.1f} MiB a rank",
      deck_.run.name, parameter_count(deck_.model), name_of(deck_.parallel.mode), session_.ranks(),
      plan().hash, plan().instructions.size(), mib(memory_.arena), mib(memory_.state), mib(memory_.baseline),
      memory_.copy > 0 ? fmt::format(", copy of the state {:.1f} MiB", mib(memory_.copy)) : "",
      mib(memory_.peak())));
  report_->note(schedule_);
  report_->note(fmt::format("products of {} by {}", name_of(deck_.precision.params),
                            kernels::product_method(deck_.precision.params, deck_.precision.f32_products)));
  if (!device_is_host()) report_->note(std::string(exec::text_of(train_->capture())));
  if (step_ > 0)
    report_->note(fmt::format(
        "continues from step {}{}, read in {:.3f} s", step_,
        deck_.debug.hash_every > 0 ? fmt::format(", state {:016x}", state_->hash()) : "", resume_seconds_));
  if (!note.empty()) report_->note(note);
  if (!set_aside_.empty())
    report_->note(fmt::format("the checkpoints of an earlier run were moved to {}", set_aside_));
  if (!background_ && deck_.checkpoint.background && deck_.checkpoint.every > 0)
    report_->note("there is no memory for a copy of the state: training waits for each checkpoint");
  if (directory_ && !directory_->note().empty()) report_->note(directory_->note());
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
  const auto keep = [this](const std::string& key, const std::vector<data::TokenFile>& files) {
    for (ckpt::DataFile& file : describe_files(key, files)) data_.push_back(std::move(file));
    files_.insert(files_.end(), files.begin(), files.end());
  };
  data::Windows train = runtime::open_windows(deck_, deck_.data.train, "data.train");
  keep("data.train", train.files());
  if (!deck_.data.valid.empty()) {
    data::Windows valid = runtime::open_windows(deck_, deck_.data.valid, "data.valid");
    data::check_same_tokenizer(valid.files()[0], train.files()[0]);  // else bits per byte mean nothing
    keep("data.valid", valid.files());
    valid_.emplace(std::move(valid), deck_.data.batch, deck_.data.valid_sequences);
  }
  batches_ = data::file_batches(data::Sampler(std::move(train), seed), shape);
}

void Trainer::build() {
  const machine::CostModel costs(runtime::machine_profile(deck_, session_.world()));
  shared_before_ = runtime::memory_usage().shared_bytes;
  runtime::RunPlans plans;
  session_.reserve([&] {
    plans = runtime::make_run_plans(deck_, session_, costs, valid_.has_value());
    std::vector<const plan::Plan*> all{&plans.train};
    if (plans.evaluate) all.push_back(&*plans.evaluate);
    return all;
  });
  memory_ = plans.memory;
  background_ = plans.background;
  schedule_ = std::move(plans.schedule);
  about_ = {session_.ranks(), 0, plans.step,
            compile::has_measured_profile(deck_)
                ? fmt::format("{} ({})", compile::profile_source(deck_), costs.profile().name)
                : std::string()};
  persistent_bytes_ = session_.memory().storage_bytes();
  train_ = session_.bind(std::move(plans.train));
  if (plans.evaluate) {
    evaluate_ = session_.bind(std::move(*plans.evaluate));
    validation_ =
        std::make_unique<Validation>(session_, *evaluate_, *valid_, deck_.data.batch, deck_.data.seq);
  }
  state_ = std::make_unique<runtime::ModelState>(session_, train_->plan());
  if (deck_.debug.hash_every > 0) hashes_ = std::make_unique<compare::ValueHashes>(session_, train_->plan());
  runtime::upload_rope_table(session_, deck_);
}

/// The median of three runs without collectives, or one run of long steps, which vary less, because the first
/// step waits for it; after a whole one that warms caches, libraries and connections, and brings parameters
/// that are gathered in place. On the state that training begins with, which AdamW then holds: of zeros,
/// products by AMX take less time. All ranks measure at once, because they share memory bandwidth in a real
/// step, too.
void Trainer::measure_compute_only() {
  if (session_.ranks() == 1) return;  // no communication to expose: every step is such a step
  constexpr double long_s = 0.5;
  StepBlock rehearsal = step_block(deck_, step_);
  rehearsal.hold = 1;
  upload_inputs(rehearsal);
  train_->run(exec::Run::full);
  if (train_->capture() == exec::Capture::captured)  // by the second run; the third is the first that replays
    for (int i = 0; i < 2; ++i) train_->run(exec::Run::compute_only);
  const auto timed = [&] {
    session_.world().barrier();
    return train_->run(exec::Run::compute_only).step;
  };
  std::vector<double> seconds{timed()};
  std::array<double, 1> slowest{seconds[0]};
  session_.world().all_reduce_max(slowest);
  while (slowest[0] <= long_s && seconds.size() < 3) seconds.push_back(timed());
  std::sort(seconds.begin(), seconds.end());
  about_.compute_only_s = seconds[seconds.size() / 2];
}

std::string Trainer::initialise_or_resume() {
  const double start = seconds_now();
  const auto checkpoint = resume(deck_, session_.world(), *state_);
  if (!checkpoint) return initialise();
  resume_seconds_ = seconds_now() - start;
  const ckpt::RunState& run = checkpoint->run;
  comm::agree(session_.world(), [&] { check_continues(run, deck_, data_, checkpoint->path); });
  step_ = run.step;
  tokens_ = run.tokens;
  sample_ = run.sample;
  resumed_from_ = checkpoint->path;
  saved_data_ = run.data;
  // The curve of another run's checkpoint does not belong to this run's files.
  if (checkpoint->own) resumed_at_ = step_;
  damaged_ = checkpoint->damaged;
  origin_ = named_origin(deck_).empty() ? run.origin : named_origin(deck_);
  return changes_since(run, deck_);
}

/// At step 0.
std::string Trainer::initialise() {
  if (!deck_.model.init.empty()) return start_from(deck_, session_.world(), *state_);
  state_->initialize(static_cast<std::uint64_t>(deck_.run.seed), deck_.model.init_std);
  return {};
}

void Trainer::upload_inputs(const StepBlock& block) {
  try {
    runtime::upload_step(session_, *batches_, sample_ / deck_.data.global_batch,
                         accumulation(deck_, session_.ranks()), buffers_);
  } catch (const Error& e) {  // the tokens of this rank alone
    if (session_.ranks() == 1) throw;
    throw Error(e.code(),
                fmt::format("rank {} on {}: {}", session_.rank(), session_.world().host(), e.what()));
  }
  buffers_.upload(session_, block);
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

report::StepMetrics Trainer::train_step() {
  session_.world().recorder().set_activity("step", step_ + 1);
  if (step_ + 1 == deck_.log.trace_step) start_trace();
  const double start = seconds_now();
  {
    const exec::TraceScope scope(trace_, host_row, {.name = "inputs", .category = "host"});
    upload_inputs(step_block(deck_, step_));
  }
  compare::ValueHashes* const tap = hashes_after(step_ + 1) ? hashes_.get() : nullptr;
  const exec::Times times = train_->run(exec::Run::full, &trace_, tap, [this] { saver_->before_update(); });
  const double seconds = seconds_now() - start;
  ++step_;
  sample_ += deck_.data.global_batch;
  if (tap != nullptr) report_->hashes(tap->finish(step_));
  return collect(times, seconds);
}

report::StepMetrics Trainer::collect(const exec::Times& times, double step_seconds) {
  std::array<float, 4> report{};  // gradient norm, scale (NaN: no update), mean loss, token count
  kernels::copy_to_host(session_.space(), report.data(), session_.memory().storage(passes::report_name),
                        sizeof report);
  std::array<double, 2> totals{};  // sum of the losses, token count
  kernels::copy_to_host(session_.space(), totals.data(), session_.memory().storage(ops::totals_name),
                        sizeof totals);
  news_ = {.stop_request = stop_.seen()};
  if (data_check_) {
    news_.data_check = static_cast<double>(data_check_->state());
    news_.data_left = static_cast<double>(data_check_->bytes_left());
  }
  report::StepMetrics m = report::slowest_rank(session_, times, step_seconds, about_.compute_only_s,
                                               {resident_bytes(), memory_.peak()}, news_);
  m.step = step_;
  m.loss = totals[0] / totals[1];
  m.grad_norm = report[0];
  m.updated = std::isfinite(report[1]);
  m.lr = learning_rate(schedule_of(deck_), step_ - 1);
  m.tokens = static_cast<std::int64_t>(totals[1]);
  m.tokens_per_s = static_cast<double>(m.tokens) / m.step_s;
  m.mfu = report::mfu(m.tokens_per_s, flops_per_token_, 1e12 * deck_.log.peak_tflops * session_.ranks());
  m.arena_peak_bytes = plan().peak_bytes();
  m.persistent_bytes = persistent_bytes_;
  if (hashes_after(step_)) m.state_hash = state_->hash();
  tokens_ += m.tokens;
  rank_times_.add(times, step_seconds);
  return m;
}

/// Of the team's window this rank answers for its own part, whatever of the others' it has looked at.
std::int64_t Trainer::resident_bytes() const {
  const runtime::MemoryUsage usage = runtime::memory_usage();
  const std::int64_t window = session_.memory().window_bytes();
  return window == 0 ? usage.rss_bytes : usage.rss_bytes - usage.shared_bytes + shared_before_ + window;
}

void Trainer::tell_ranks() {
  if (session_.ranks() > 1) report_->ranks(step_, rank_times_.collect());
}

std::optional<report::StepMetrics> Trainer::validate() {
  if (!validation_) return std::nullopt;
  session_.world().recorder().set_activity("validation", step_);
  const exec::TraceScope scope(trace_, host_row, {.name = "validation", .category = "host"});
  const ValidationResult result = validation_->run();
  std::array<double, 3> largest{result.seconds, static_cast<double>(resident_bytes()),
                                static_cast<double>(memory_.peak())};
  session_.world().all_reduce_max(largest);
  report::StepMetrics m;
  m.kind = report::MetricsKind::valid;
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

Position Trainer::position() const {
  return {step_, tokens_, sample_};
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

/// The last step's save is waited for; false when it is not there.
bool Trainer::save_if_due() {
  const exec::TraceScope scope(trace_, host_row, {.name = "checkpoint", .category = "host"});
  const bool last = step_ == deck_.run.steps;
  if (saves_after(step_)) session_.world().recorder().set_activity("checkpoint", step_);
  if (saves_after(step_)) mark_verified();
  if (saves_after(step_) && last) return saver_->save(position());
  if (saves_after(step_)) saver_->begin(position());
  if (last)
    saver_->finish();
  else
    saver_->advance();
  return true;
}

Outcome Trainer::run() {
  if (step_ == 0 && deck_.checkpoint.initial) {
    mark_verified();
    saver_->begin(position());
  }
  news_.stop_request = stop_.seen();  // start-up may have taken long
  session_.world().all_reduce_max(std::span(&news_.stop_request, 1));
  bool saved = true;
  std::string stop = stop_.text(news_.stop_request);
  while (step_ < deck_.run.steps && stop.empty()) {
    const report::StepMetrics metrics = train_step();
    longest_step_ = std::max(longest_step_, metrics.step_s);
    report_->train(metrics);
    const bool goes_on = goes_on_after(metrics);
    if (goes_on && (step_ % deck_.log.every == 0 || step_ == deck_.run.steps)) tell_ranks();
    if (goes_on && validates_after(step_))
      if (const auto valid = validate()) {
        longest_validation_ = std::max(longest_validation_.value_or(0), valid->step_s);
        report_->validation(*valid);
      }
    look_at_data_check();
    if (step_ == deck_.run.steps) finish_data_check(Patience::before_last_save);
    if (goes_on) saved = save_if_due();
    if (step_ == deck_.run.steps) finish_data_check(Patience::after_last_save);
    write_trace();
    if (step_ < deck_.run.steps) stop = reason_to_stop();
  }
  const Outcome outcome = step_ < deck_.run.steps ? end_early(stop) : Outcome::finished;
  if (outcome != Outcome::unfinished) stop_.remove_file();
  report_->finish();
  if (!saved) fail_unsaved("all steps are done");
  return outcome;
}

}  // namespace weft::train
