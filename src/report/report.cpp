#include "report/report.hpp"

#include <utility>

#include "base/log.hpp"
#include "io/step_lines.hpp"

namespace weft::report {

Report::Report(const Deck& deck, int rank, std::vector<RankPlace> places,
               std::optional<std::int64_t> resumed_at, Summary::About about)
    : dir_(deck.run.dir),
      log_(deck.log),
      hashed_(deck.debug.hash_every > 0),
      places_(std::move(places)),
      spikes_(deck.log.spike),
      summary_(std::move(about)) {
  if (rank != 0) return;
  log::add_file(dir_ + "/log.txt");
  open(resumed_at);
  ProgressOptions options;
  options.out = deck.log.progress ? stderr : nullptr;
  options.total_steps = deck.run.steps;
  progress_ = std::make_unique<Progress>(options);
}

void Report::open(std::optional<std::int64_t> resumed_at) {
  metrics_ = std::make_unique<MetricsWriter>(dir_ + "/metrics.jsonl", resumed_at);
  const std::string hashes = dir_ + "/hashes.jsonl";
  if (hashed_) {
    hashes_ = std::make_unique<compare::HashWriter>(hashes, resumed_at);
  } else {
    io::prepare_step_lines(hashes, resumed_at);  // sets aside an earlier run's file
  }
  const std::string ranks = dir_ + "/ranks.jsonl";
  if (ranks_) {
    ranks_->go_back(*resumed_at);
  } else if (places_.size() > 1) {
    ranks_ = std::make_unique<SlowRanks>(ranks, resumed_at, places_);
  } else {
    io::prepare_step_lines(ranks, resumed_at);
  }
  if (log_.tensorboard) events_ = std::make_unique<EventWriter>(dir_ + "/tensorboard", resumed_at);
}

void Report::go_back(std::int64_t step) {
  if (metrics_) open(step);
}

void Report::train(StepMetrics metrics) {
  if (!metrics_) return;
  if (const auto spike = spikes_.add(metrics.loss)) {
    metrics.spike = true;
    log::warn(
        "step {}: the loss {:.6f} is a spike: the median of the {} before it is {:.6f}, their deviation "
        "{:.2g}",
        metrics.step, metrics.loss, Spikes::history, spike->median, spike->deviation);
  }
  metrics_->write(metrics);
  if (events_) events_->write(metrics);
  if (metrics.step % log_.every == 0)
    log::record(fmt::format("step {}: loss {:.6f}, gradient norm {:.4g}, {:.0f} tokens/s", metrics.step,
                            metrics.loss, metrics.grad_norm.value_or(0), metrics.tokens_per_s));
  progress_->step(metrics);
  summary_.add(metrics);
}

void Report::validation(const StepMetrics& metrics) {
  if (!metrics_) return;
  metrics_->write(metrics);
  if (events_) events_->write(metrics);
  progress_->validation(metrics);
  log::record(fmt::format("validation after step {}: loss {:.6f}, {:.6f} bits a byte", metrics.step,
                          metrics.loss, metrics.bits_per_byte.value_or(0)));
}

void Report::saved(const SaveMetrics& metrics, const std::string& path) {
  if (!metrics_) return;
  metrics_->write(metrics);
  if (!metrics.ok) return;
  note(fmt::format("saved {} ({:.1f} MiB in {:.2f} s; training waited {:.3f} s)", path,
                   static_cast<double>(metrics.bytes) / (1 << 20), metrics.seconds, metrics.pause_s));
}

void Report::hashes(const compare::StepHashes& hashes) {
  if (hashes_) hashes_->write(hashes);
}

void Report::ranks(std::int64_t step, const RankFigures& own) {
  if (!ranks_) return;
  if (const std::string line = ranks_->add(step, own); !line.empty()) log::record(line);
}

void Report::note(const std::string& line) {
  if (!progress_) return;
  log::record(line);
  progress_->note(line);
}

void Report::finish() {
  if (!progress_) return;
  progress_->finish();
  for (const std::string& line : summary_.lines()) note(line);
  if (!ranks_) return;
  for (const std::string& line : ranks_->lines()) note(line);
}

}  // namespace weft::report
