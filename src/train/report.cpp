#include "train/report.hpp"

#include <utility>

#include "base/log.hpp"
#include "train/step_lines.hpp"

namespace weft::train {

Report::Report(const Deck& deck, int rank, const std::vector<std::string>& hosts,
               std::optional<std::int64_t> resumed_at, Summary::About about)
    : every_(deck.log.every), summary_(std::move(about)) {
  if (rank != 0) return;
  log::add_file(deck.run.dir + "/log.txt");
  metrics_ = std::make_unique<MetricsWriter>(deck.run.dir + "/metrics.jsonl", resumed_at);
  const std::string hashes = deck.run.dir + "/hashes.jsonl";
  if (deck.debug.hash_every > 0) {
    hashes_ = std::make_unique<HashWriter>(hashes, resumed_at);
  } else {
    prepare_step_lines(hashes, resumed_at);  // an earlier run's are not this one's
  }
  const std::string ranks = deck.run.dir + "/ranks.jsonl";
  if (hosts.size() > 1) {
    ranks_ = std::make_unique<SlowRanks>(ranks, resumed_at, hosts);
  } else {
    prepare_step_lines(ranks, resumed_at);
  }
  if (deck.log.tensorboard)
    events_ = std::make_unique<EventWriter>(deck.run.dir + "/tensorboard", resumed_at);
  ProgressOptions options;
  options.out = deck.log.progress ? stderr : nullptr;
  options.total_steps = deck.run.steps;
  progress_ = std::make_unique<Progress>(options);
}

void Report::train(const StepMetrics& metrics) {
  if (!metrics_) return;
  metrics_->write(metrics);
  if (events_) events_->write(metrics);
  if (metrics.step % every_ == 0)
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

void Report::hashes(const StepHashes& hashes) {
  if (hashes_) hashes_->write(hashes);
}

void Report::ranks(std::int64_t step, const OwnSeconds& own) {
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

}  // namespace weft::train
