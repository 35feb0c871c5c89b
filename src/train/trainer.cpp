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
#include "compile/programs.hpp"
#include "io/file.hpp"
#include "kernels/matmul.hpp"
#include "ops/storages.hpp"
#include "passes/passes.hpp"
#include "report/flops.hpp"
#include "runtime/machine_profile.hpp"
#include "runtime/memory_usage.hpp"
#include "runtime/run_plans.hpp"
#include "runtime/same.hpp"
#include "train/checkpointing.hpp"
#include "train/compute_only.hpp"
#include "train/crowded_host.hpp"
#include "train/data_files.hpp"
#include "train/learning_rate.hpp"
#include "train/starting_point.hpp"

namespace weft::train {
namespace {

// How many seconds a run that has done all its steps waits, at most, until the last token files are verified:
// before the last save, and after it.
constexpr double most_before_save = 1;
constexpr double most_after_save = 60;

/// The axes with more than one rank, as " (mesh pipe=2 data=2)"; empty where that is the data axis alone.
std::string mesh_text(const Mesh& mesh) {
  std::string text;
  bool others = false;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1) text += fmt::format(" {}={}", axis.name, axis.size);
    others = others || (axis.size > 1 && axis.name != data_axis);
  }
  return others ? fmt::format(" (mesh{})", text) : "";
}

}  // namespace

Trainer::Trainer(const Deck& deck, comm::World& world, std::unique_ptr<data::BatchSource> batches,
                 std::function<void()> on_directory,
                 const std::function<void(const std::exception&)>& on_error)
    : deck_(deck),
      session_(deck, world),
      ending_(deck, world.rank()),
      directory_(deck_, world, std::move(on_directory)),
      data_(std::move(batches)),
      buffers_(deck.data.batch, deck.data.seq),
      trace_(world, deck.run.dir + "/trace.json") {
  try {
    start();
  } catch (const std::exception& e) {
    if (on_error) on_error(e);
    throw;
  }
}

void Trainer::start() {
  comm::World& world = session_.world();
  runtime::check_same_machine(world, deck_);
  // This is said before the steps of start-up, which take as long as those of training.
  if (const std::string crowded = crowded_host(world); !crowded.empty()) log::warn("{}", crowded);
  directory_.check();  // this comes before anything is read from the directory
  comm::agree(world, [&] { data_.open(deck_); });
  check_same_files(world, data_.described());
  build();
  start_ = start_state(deck_, world, *programs_.state, data_.described());
  at_ = start_.at;
  data_.start_check(world, start_.saved_data);
  measure_compute_only();
  std::string set_aside_at;
  // This comes after all that may refuse the deck, because the directory may be another run's. A run that is
  // done adds nothing to its curve, and its deck.toml stays the deck of that curve. The file is written anew
  // all the same, because jobs/train.sbatch sees by it that Weft has started.
  directory_.make(is_done() ? start_.saved_deck : print_deck(deck_), [&] {
    if (!start_.resumed) set_aside_at = set_earlier_aside(deck_);
  });
  set_aside(start_.damaged, world);
  if (start_.resumed) start_.checkpoint = give_name_back(*start_.checkpoint, world);
  report_ = std::make_unique<report::Report>(deck_, world.rank(), report::places_of(session_),
                                             start_.resumed_at(), planned_.about);
  begin_saving();
  tell_start(set_aside_at);
}

Trainer::~Trainer() = default;

void Trainer::build() {
  const machine::CostModel costs(runtime::machine_profile(deck_, session_.world()));
  session_.matmuls().take(costs.profile().algorithms);
  const data::ValidationSource* const valid = data_.validation();
  planned_.flops_per_token = report::flops_per_token(report::model_size(deck_));
  planned_.shared_before = runtime::memory_usage().shared_bytes;
  runtime::RunPlans plans;
  session_.reserve([&] {
    plans = runtime::make_run_plans(deck_, session_, costs, valid == nullptr ? 0 : valid->microbatches());
    std::vector<const plan::Plan*> all{&plans.train};
    if (plans.evaluate) all.push_back(&*plans.evaluate);
    return all;
  });
  std::array<double, 1> refused{static_cast<double>(session_.matmuls().refused())};
  session_.world().all_reduce_max(refused);  // stages of a pipe have other products
  if (refused[0] > 0 && session_.rank() == 0)
    log::warn(
        "{}: this device or its library does not know the algorithms of {} products; they take the library's "
        "first choice (weft profile measures anew)",
        compile::profile_source(deck_), refused[0]);
  planned_.memory = plans.memory;
  planned_.saves_in_background = plans.background;
  planned_.schedule = std::move(plans.schedule);
  if (device_is_host()) planned_.float8 = compile::float8_text(deck_, costs.profile());
  planned_.about = {session_.ranks(), 0, plans.step,
                    compile::has_measured_profile(deck_)
                        ? fmt::format("{} ({})", compile::profile_source(deck_), costs.profile().name)
                        : std::string()};
  std::array<double, 2> most{static_cast<double>(plans.train.peak_bytes()),
                             static_cast<double>(session_.memory().storage_bytes())};
  session_.world().all_reduce_max(most);  // the stages of a pipe differ
  planned_.arena_peak_bytes = static_cast<std::int64_t>(most[0]);
  planned_.persistent_bytes = static_cast<std::int64_t>(most[1]);
  programs_.train = session_.bind(std::move(plans.train));
  if (plans.evaluate) {
    programs_.evaluate = session_.bind(std::move(*plans.evaluate));
    programs_.validation =
        std::make_unique<Validation>(session_, *programs_.evaluate, *valid, deck_.data.batch, deck_.data.seq);
  }
  programs_.state =
      std::make_unique<runtime::ModelState>(session_, plan(), model::units(compile::spec_of(deck_)));
  if (deck_.debug.hash_every > 0) programs_.hashes = std::make_unique<compare::ValueHashes>(session_, plan());
  runtime::upload_rope_table(session_, deck_);
}

void Trainer::measure_compute_only() {
  if (session_.ranks() == 1) return;  // without communication, every step is such a step
  StepBlock rehearsal = step_block(deck_, at_.step);
  rehearsal.hold = 1;
  upload_inputs(rehearsal);
  planned_.about.compute_only_s = compute_only_seconds(session_.world(), *programs_.train);
}

void Trainer::begin_saving() {
  ckpt::RunState run = describe_run(deck_, session_.world());
  run.origin = start_.origin;
  run.data = data_.described();
  saver_ = std::make_unique<Saver>(deck_, session_, *programs_.state, *report_, std::move(run),
                                   planned_.saves_in_background);
  if (start_.resumed)
    saver_->set_saved(at_.step, *start_.checkpoint);
  else if (start_.checkpoint)
    saver_->set_start(*start_.checkpoint);
  bad_numbers_.emplace(BadNumbers::Run{deck_, start_, session_, *programs_.train, *programs_.state, *saver_,
                                       *report_, at_, [this] {
                                         StepBlock again = step_block(deck_, at_.step - 1);
                                         again.hold = 1;
                                         buffers_.begin_step(accumulation(deck_, session_.batch_ranks()));
                                         buffers_.upload(session_, again);
                                       }});
}

void Trainer::tell_start(const std::string& set_aside) {
  const runtime::PlannedMemory& memory = planned_.memory;
  const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  report_->note(fmt::format(
      "{}: {} parameters, {} on {} ranks{}, plan {:016x}: {} instructions, arena {:.1f} MiB, state {:.1f} "
      "MiB, baseline {:.1f} MiB{}: {:.1f} MiB {}",
      deck_.run.name, parameter_count(deck_.model), name_of(deck_.parallel.mode), session_.ranks(),
      mesh_text(session_.mesh()), plan().hash, plan().instructions.size(), mib(memory.arena),
      mib(memory.state), mib(memory.baseline),
      memory.copy > 0 ? fmt::format(", copy of the state {:.1f} MiB", mib(memory.copy)) : "",
      mib(memory.peak()), session_.mesh().size(pipe_axis) > 1 ? "on rank 0, others differ" : "a rank"));
  report_->note(planned_.schedule);
  report_->note(fmt::format("products of {} by {}", name_of(deck_.precision.params),
                            kernels::product_method(deck_.precision.params, deck_.precision.f32_products)));
  if (session_.rank() == 0 && !planned_.float8.empty()) log::warn("{}", planned_.float8);
  if (!device_is_host()) report_->note(std::string(exec::text_of(capture())));
  if (data_.amount().sequences > 0) report_->note(amount_text(data_.amount(), deck_, at_));
  const std::string repeats = repeat_text(data_.amount(), deck_, at_);
  if (session_.rank() == 0 && !repeats.empty()) log::warn("{}", repeats);
  if (at_.step > 0)
    report_->note(
        fmt::format("continues from step {}{}, read in {:.3f} s from {}", at_.step,
                    deck_.debug.hash_every > 0 ? fmt::format(", state {:016x}", state().hash()) : "",
                    start_.load_s, *start_.checkpoint));
  if (!start_.note.empty()) report_->note(start_.note);
  if (is_done())
    report_->note(
        fmt::format("all {} steps are done already ({}); for more raise run.steps, to begin anew set "
                    "checkpoint.resume = \"never\" or another run.name",
                    deck_.run.steps, *start_.checkpoint));
  // A start that goes on behind the step may have been the one that traced it.
  if (const std::int64_t step = deck_.log.trace_step;
      step > 0 && step <= at_.step && session_.rank() == 0 && !io::file_bytes(deck_.run.dir + "/trace.json"))
    log::warn(
        "{}: step {} is done already (the run goes on from step {}), and no trace of it is written; name a "
        "later step",
        place_of(deck_, "log.trace_step"), step, at_.step);
  if (!set_aside.empty())
    report_->note(fmt::format("the checkpoints of an earlier run were moved to {}", set_aside));
  if (!planned_.saves_in_background && deck_.checkpoint.background && deck_.checkpoint.every > 0)
    report_->note("there is no memory for a copy of the state: training waits for each checkpoint");
  if (const std::string note = directory_.note(); !note.empty()) report_->note(note);
}

void Trainer::upload_inputs(const StepBlock& block) {
  try {
    runtime::upload_step(session_, data_.batches(), at_.sample / deck_.data.global_batch,
                         accumulation(deck_, session_.batch_ranks()), buffers_);
  } catch (const Error& e) {  // only this rank's tokens are at fault
    if (session_.ranks() == 1) throw;
    throw Error(e.code(),
                fmt::format("rank {} on {}: {}", session_.rank(), session_.world().host(), e.what()));
  }
  buffers_.upload(session_, block);
}

report::StepMetrics Trainer::train_step() {
  session_.world().recorder().set_activity("step", at_.step + 1);
  if (at_.step + 1 == deck_.log.trace_step) trace_.start(plan(), at_.step + 1);
  const double start = seconds_now();
  {
    const auto scope = trace_.scope("inputs");
    upload_inputs(step_block(deck_, at_.step));
  }
  compare::ValueHashes* const tap = hashes_after(at_.step + 1) ? programs_.hashes.get() : nullptr;
  const exec::Times times =
      programs_.train->run(exec::Run::full, &trace_.trace(), tap, [this] { saver_->before_update(); });
  const double seconds = seconds_now() - start;
  ++at_.step;
  at_.sample += deck_.data.global_batch;
  if (tap != nullptr) report_->hashes(tap->finish(at_.step));
  return collect(times, seconds);
}

report::StepMetrics Trainer::collect(const exec::Times& times, double step_seconds) {
  std::array<float, 4> report{};  // gradient norm, scale (NaN: no update), mean loss, token count
  kernels::copy_to_host(session_.space(), report.data(), session_.memory().storage(passes::report_name),
                        sizeof report);
  std::array<double, 2> totals{};  // sum of the losses, token count
  kernels::copy_to_host(session_.space(), totals.data(), session_.memory().storage(ops::totals_name),
                        sizeof totals);
  news_ = {.stop_request = ending_.request()};
  data_.tell(news_);
  const report::MemoryBytes memory{resident_bytes(), planned_.memory.peak()};
  report::StepMetrics m =
      report::slowest_rank(session_, times, step_seconds, planned_.about.compute_only_s, memory, news_);
  m.step = at_.step;
  m.loss = totals[0] / totals[1];
  m.grad_norm = report[0];
  m.updated = std::isfinite(report[1]);
  m.lr = learning_rate(lr_course_of(deck_), at_.step - 1);
  m.tokens = static_cast<std::int64_t>(totals[1]);
  m.epoch = data_.epoch(at_.sample);
  m.tokens_per_s = static_cast<double>(m.tokens) / m.step_s;
  m.mfu =
      report::mfu(m.tokens_per_s, planned_.flops_per_token, 1e12 * deck_.log.peak_tflops * session_.ranks());
  m.arena_peak_bytes = planned_.arena_peak_bytes;
  m.persistent_bytes = planned_.persistent_bytes;
  if (hashes_after(at_.step)) m.state_hash = state().hash();
  at_.tokens += m.tokens;
  rank_times_.add(times, step_seconds, memory);
  return m;
}

/// The memory that this rank has taken. Of the team's window this counts the rank's own part, whatever it has
/// touched of the others' parts.
std::int64_t Trainer::resident_bytes() {
  if (!device_is_host()) {
    // A plan's first runs load kernels and capture it; later little changes, and asking takes as long as some
    // kernels.
    constexpr int first = 4, then_every = 64;
    if (device_looks_ < first || device_looks_ % then_every == 0)
      device_bytes_ = runtime::held_bytes(session_.world());
    ++device_looks_;
    return device_bytes_;
  }
  const runtime::MemoryUsage usage = runtime::memory_usage();
  const std::int64_t window = session_.memory().window_bytes();
  return window == 0 ? usage.rss_bytes
                     : usage.rss_bytes - usage.shared_bytes + planned_.shared_before + window;
}

void Trainer::tell_ranks() {
  if (session_.ranks() > 1) report_->ranks(at_.step, rank_times_.collect());
}

std::optional<report::StepMetrics> Trainer::validate() {
  if (!programs_.validation) return std::nullopt;
  session_.world().recorder().set_activity("validation", at_.step);
  const auto scope = trace_.scope("validation");
  const ValidationResult result = programs_.validation->run();
  std::array<double, 3> largest{result.seconds, static_cast<double>(resident_bytes()),
                                static_cast<double>(planned_.memory.peak())};
  session_.world().all_reduce_max(largest);
  report::StepMetrics m;
  m.kind = report::MetricsKind::valid;
  m.step = at_.step;
  m.loss = result.loss;
  m.bits_per_byte = result.bits_per_byte;
  m.tokens = result.tokens;
  m.step_s = largest[0];
  m.tokens_per_s = static_cast<double>(result.tokens) / m.step_s;
  m.arena_peak_bytes = planned_.arena_peak_bytes;
  m.persistent_bytes = planned_.persistent_bytes;
  m.rss_bytes = static_cast<std::int64_t>(largest[1]);
  m.planned_bytes = static_cast<std::int64_t>(largest[2]);
  return m;
}

bool Trainer::is_done() const {
  return start_.resumed && start_.at.step >= deck_.run.steps;
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

/// Saves if that is due. It waits for the save of the last step, and returns false when that one's checkpoint
/// is not there. A save that is due at a bad step is made behind the next good one: the state is still that
/// of the last good step, and if that step's update has ruined it, saves would push out what is left of
/// before.
bool Trainer::save_if_due() {
  const auto scope = trace_.scope("checkpoint");
  const bool last = at_.step == deck_.run.steps;
  const bool due = save_waits_ || saves_after(at_.step);
  save_waits_ = due && was_bad_ && !last;
  if (due && !save_waits_) {
    session_.world().recorder().set_activity("checkpoint", at_.step);
    describe_data(data_.verified());
    if (last) return saver_->save(at_);
    saver_->begin(at_);
  }
  if (last)
    saver_->finish();
  else
    saver_->advance();
  return true;
}

void Trainer::describe_data(std::optional<std::vector<ckpt::DataFile>> described) {
  if (described) saver_->set_data(std::move(*described));
}

/// What has not been timed yet is guessed: a validation's round takes as long as a training step's, and a
/// save writes 100 MB/s. The save that is under way ends before the next one begins.
StillToCome Trainer::still_to_come() const {
  StillToCome next;
  if (programs_.validation && validates_after(at_.step + 1)) {
    const double rounds =
        std::ceil(static_cast<double>(data_.validation()->microbatches()) / session_.batch_ranks());
    next.validation_rounds = rounds / static_cast<double>(accumulation(deck_, session_.batch_ranks()));
  }
  const double save =
      saver_->longest_seconds().value_or(static_cast<double>(programs_.state->own_bytes()) / 1e8);
  next.save_s = saver_->seconds_to_end(save) + save;
  return next;
}

bool Trainer::validate_and_save(bool goes_on) {
  comm::World& world = session_.world();
  const bool last = at_.step == deck_.run.steps;
  if (goes_on && (at_.step % deck_.log.every == 0 || last)) tell_ranks();
  if (goes_on && validates_after(at_.step))
    if (const auto valid = validate()) {
      ending_.validation_took(valid->step_s);
      report_->validation(*valid);
    }
  describe_data(data_.follow(world, news_));
  // The last save is not put off for files that take long, but small ones are verified by then.
  if (last) {
    const double needed = ending_.seconds_to_next_save(still_to_come());
    describe_data(data_.finish_check(world, ending_.patience(most_before_save, needed), news_));
  }
  const bool saved = !goes_on || save_if_due();
  if (last) {
    describe_data(data_.finish_check(world, ending_.patience(most_after_save, 0), news_));
    if (data_.being_checked())
      report_->note("the run was too short to verify the checksums of all token files");
  }
  return saved;
}

Outcome Trainer::run() {
  if (at_.step == 0 && deck_.checkpoint.initial) {
    describe_data(data_.verified());
    saver_->begin(at_);
  }
  news_.stop_request = ending_.request();  // start-up may have taken long
  session_.world().all_reduce_max(std::span(&news_.stop_request, 1));
  bool saved = true;
  std::string stop = ending_.text(news_.stop_request);
  while (at_.step < deck_.run.steps && stop.empty()) {
    const report::StepMetrics metrics = train_step();
    ending_.step_took(metrics.step_s);
    report_->train(metrics);
    was_bad_ = !metrics.updated;
    saver_->keep_earlier(was_bad_);
    saved = validate_and_save(goes_on_after(metrics));
    trace_.write();
    if (at_.step < deck_.run.steps)
      stop = ending_.reason(session_.world(), news_.stop_request, still_to_come());
  }
  const Outcome outcome = at_.step < deck_.run.steps ? end_early(stop) : Outcome::finished;
  if (outcome != Outcome::unfinished) ending_.forget_request();
  report_->finish();
  if (!saved) fail_unsaved("all steps are done");
  return outcome;
}

Outcome Trainer::end_early(const std::string& why) {
  describe_data(data_.verified());
  if (at_.step > 0 && !saver_->save(at_)) fail_unsaved(why);
  saver_->finish();
  report_->note(fmt::format("{}: stopped after step {} of {}; start again with the same deck to continue",
                            why, at_.step, deck_.run.steps));
  return Ending::outcome(news_.stop_request);
}

/// Ends the run with an error when the last save failed. Such a run is not unfinished but stuck: a job that
/// starts it again from an older checkpoint would only come here again.
void Trainer::fail_unsaved(const std::string& why) const {
  if (session_.rank() != 0) throw Error(ExitCode::failure, "");
  throw Error(
      ExitCode::failure,
      fmt::format(
          "{}, but step {} could not be saved (see the warning above); make room in {}, and start again from "
          "the newest checkpoint there",
          why, at_.step, checkpoints_dir(deck_)));
}

}  // namespace weft::train
