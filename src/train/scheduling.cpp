#include "train/scheduling.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "plan/report.hpp"
#include "plan/simulate.hpp"
#include "search/recompute.hpp"
#include "search/search.hpp"
#include "train/programs.hpp"

namespace weft::train {
namespace {

struct Candidate {
  passes::PipelineOptions options;
  plan::Plan plan;
  double seconds = 0;
  std::int64_t bytes = 0;  ///< state and arena
};

class Chooser {
 public:
  Chooser(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
          const machine::CostModel& costs)
      : deck_(deck), mesh_(mesh), scratch_(scratch), costs_(costs), given_(pipeline_options(deck)) {
    limit_ =
        deck.schedule.memory_limit > 0 ? deck.schedule.memory_limit : costs.profile().compute.memory_bytes;
  }

  Chosen run() {
    const bool automatic = deck_.schedule.bucketing == Bucketing::automatic;
    const bool searched = mesh_.world() > 1 && (automatic || deck_.schedule.bucketing == Bucketing::greedy);
    const bool budget = deck_.schedule.recompute == Recompute::budget;
    if (!searched && !budget) return {given_, std::nullopt};
    typed_ = passes::run(passes::before_sharding(given_), training_forward(deck_, mesh_));
    if (budget) fit_by_recomputing();
    if (!searched) return {given_, std::move(fitted_->plan)};
    const search::Problem problem = read_problem();
    search::Schedule by_rules = search::greedy(problem, costs_, arena_limit());
    by_rules.prefetch = given_.order.prefetch;
    by_rules.delay = given_.order.delay;
    if (!automatic) return {with(by_rules), std::nullopt};
    return best_of(problem, by_rules);
  }

 private:
  passes::PipelineOptions with(const search::Schedule& schedule) const {
    passes::PipelineOptions options = given_;
    options.buckets = schedule.buckets;
    options.order.prefetch = schedule.prefetch;
    options.order.delay = schedule.delay;
    if (deck_.schedule.regather == Regather::automatic) options.shard.keep_units = schedule.keep_units;
    return options;
  }

  /// The first level of recomputation whose plan fits, by bisection: memory falls from level to level.
  void fit_by_recomputing() {
    const search::RecomputeLevels levels(typed_, costs_);
    const auto fits_at = [&](int level) {
      given_.recompute = levels.at(level);
      Candidate candidate = planned(given_, passes::run(passes::sharding(given_), typed_));
      const bool good = fits(candidate);
      if (good || !fitted_) fitted_ = std::move(candidate);
      return good;
    };
    int low = -1, high = levels.count();  // does not fit; fits
    if (!fits_at(high)) refuse(fitted_->bytes);
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (fits_at(middle) ? high : low) = middle;
    }
    given_ = fitted_->options;
  }

  Candidate planned(const passes::PipelineOptions& options, const ir::Graph& sharded) const {
    plan::Plan plan = lowered(passes::run(passes::after_sharding(options), sharded), deck_, scratch_);
    const std::int64_t bytes = plan::persistent_bytes(plan) + plan.peak_bytes();
    return {options, std::move(plan), 0, bytes};
  }

  [[noreturn]] void refuse(std::int64_t least) const {
    throw Error(
        ExitCode::bad_input,
        fmt::format("{}: no plan fits (the smallest found takes {:.2f} GiB on a rank, the limit is {:.2f}); "
                    "recompute more, use more ranks, or a smaller data.batch",
                    place_of(deck_, "schedule.memory_limit"), static_cast<double>(least) / (1 << 30),
                    deck_.schedule.memory_limit / (1 << 30)));
  }

  search::Problem read_problem() {
    const ir::Graph& graph = sharded(given_);
    if (deck_.schedule.regather != Regather::automatic) typed_ = {};  // no candidate is sharded otherwise
    for (const ir::Storage& s : graph.storages()) state_bytes_ += graph.local_bytes(s);
    return search::make_problem(graph, scratch_, costs_);
  }

  /// The step with a collective a unit, each where it is needed. Candidates share it, but for those with
  /// other units that stay gathered.
  const ir::Graph& sharded(const passes::PipelineOptions& options) {
    if (!sharded_ || kept_units_ != options.shard.keep_units)
      sharded_ = passes::run(passes::sharding(options), typed_);
    kept_units_ = options.shard.keep_units;
    return *sharded_;
  }

  /// Bytes that the limit leaves for the arena; 0: no limit.
  std::int64_t arena_limit() const {
    if (limit_ <= 0) return 0;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(limit_) - state_bytes_);
  }

  Candidate planned(const search::Schedule& schedule) {
    const passes::PipelineOptions options = with(schedule);
    Candidate candidate = planned(options, sharded(options));
    candidate.seconds = plan::simulate(candidate.plan, costs_).end;
    return candidate;
  }

  bool fits(const Candidate& c) const { return limit_ <= 0 || static_cast<double>(c.bytes) <= limit_; }

  Chosen best_of(const search::Problem& problem, const search::Schedule& by_rules) {
    const auto blocks = passes::buckets_by_path(model::units(spec_of(deck_)), deck_.schedule.buckets);
    search::Schedule units = search::unit_schedule(problem);
    units.prefetch = by_rules.prefetch;
    units.delay = by_rules.delay;
    search::Schedule manual = units;
    manual.buckets = {blocks, blocks, blocks};
    consider(planned(manual));
    consider(planned(by_rules));
    search::SearchOptions options;
    if (deck_.schedule.prefetch >= 0) options.prefetch = given_.order.prefetch;
    if (deck_.schedule.reduce_delay >= 0) options.delay = given_.order.delay;
    if (deck_.schedule.regather == Regather::automatic) options.keep = search::Keep::choose;
    options.live_limit = arena_limit();
    // The arena is a little larger than what is live in it: a plan that does not fit is searched again,
    // tighter.
    constexpr int attempts = 3;
    for (int i = 0; i < attempts; ++i) {
      Candidate found = planned(search::search(problem, costs_, options, {units, manual, by_rules}));
      const std::int64_t excess = found.bytes - static_cast<std::int64_t>(limit_);
      const bool good = fits(found);
      consider(std::move(found));
      options.live_limit -= excess;
      if (good || options.live_limit <= 0) break;
    }
    if (best_) return {best_->options, std::move(best_->plan)};
    if (deck_.schedule.memory_limit > 0) refuse(smallest_->bytes);
    return {smallest_->options, std::move(smallest_->plan)};
  }

  void consider(Candidate candidate) {
    if (fits(candidate) && (!best_ || candidate.seconds < best_->seconds)) {
      best_ = std::move(candidate);
    } else if (!best_ && (!smallest_ || candidate.bytes < smallest_->bytes)) {
      smallest_ = std::move(candidate);
    }
  }

  const Deck& deck_;
  const Mesh& mesh_;
  const plan::ScratchQuery& scratch_;
  const machine::CostModel& costs_;
  passes::PipelineOptions given_;
  ir::Graph typed_;  ///< the step before it is sharded: what all candidates begin with
  std::optional<ir::Graph> sharded_;
  int kept_units_ = 0;  ///< of sharded_
  double limit_;        ///< bytes of a rank, the deck's or the machine's; 0: none
  std::int64_t state_bytes_ = 0;
  std::optional<Candidate> fitted_;    ///< by recomputing
  std::optional<Candidate> best_;      ///< of those considered that fit
  std::optional<Candidate> smallest_;  ///< of those considered, while none fits
};

}  // namespace

Chosen choose_schedule(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                       const machine::CostModel& costs) {
  return Chooser(deck, mesh, scratch, costs).run();
}

std::string schedule_text(const passes::PipelineOptions& options) {
  std::string text = "schedule: ";
  if (options.buckets) {
    const auto count = [](const std::vector<int>& numbers) {
      return numbers.empty() ? 0 : numbers.back() + 1;
    };
    text += fmt::format("{} / {} gather buckets forward / backward, {} reduce buckets",
                        count(options.buckets->forward), count(options.buckets->backward),
                        count(options.buckets->reduce));
  } else {
    text += "a bucket a unit";
  }
  text += fmt::format(", prefetch {}, delay {}", options.order.prefetch, options.order.delay);
  if (options.shard.keep_units > 0) text += fmt::format(", {} units stay gathered", options.shard.keep_units);
  if (options.recompute.what == passes::Recompute::full) text += ", recompute full";
  const char* separator = ", recompute ";
  for (const passes::RecomputeRule& rule : options.recompute.rules) {
    text += fmt::format("{}{}@{}", separator, rule.op ? name_of(*rule.op) : "", rule.module);
    separator = " ";
  }
  return text;
}

}  // namespace weft::train
