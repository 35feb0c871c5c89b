#include "compile/scheduling.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/text.hpp"
#include "compile/programs.hpp"
#include "compile/step_seconds.hpp"
#include "passes/collectives.hpp"
#include "plan/report.hpp"
#include "search/recompute.hpp"
#include "search/search.hpp"

namespace weft::compile {
namespace {

struct Candidate {
  passes::PassOptions options;
  plan::Plan plan;
  double seconds = 0;
  std::int64_t bytes = 0;  ///< bytes of state and arena
};

/// How many rounds of `all` stand for any number of them. They are four: the first, two that are like all
/// others but the last, and the last; twice as many where two may take turns. In a pipe eight are left
/// between those that fill it and those that drain it; and zbv's order differs with what is left of the
/// number of rounds when it is divided by the ranks, so that is kept. Nothing where the order depends on all
/// rounds.
std::optional<std::int64_t> distinct_rounds(const passes::PassOptions& given, std::int64_t all) {
  if (!given.stage) return given.partition || given.context ? 8 + all % 2 : 4;
  const std::int64_t ranks = given.stage->sizes.ranks;
  switch (given.stage->kind) {
    case PipelineKind::one_f_one_b:
    case PipelineKind::zb_h1: return ranks + 8;
    case PipelineKind::zbv: return 2 * ranks + 8 + (all + ranks - 8 % ranks) % ranks;
    case PipelineKind::gpipe:
    case PipelineKind::interleaved: break;
  }
  return std::nullopt;
}

/// The bytes of a plan's state and arena.
std::int64_t bytes_of(const plan::Plan& plan) {
  return plan::persistent_bytes(plan) + plan.peak_bytes();
}

/// Whether the plan is within the limit, or there is none.
bool fits(const plan::Plan& plan, double limit) {
  return limit <= 0 || static_cast<double>(bytes_of(plan)) <= limit;
}

bool is_searched(const Deck& deck, const Mesh& mesh) {
  return mesh.world() > 1 &&
         (deck.schedule.bucketing == Bucketing::automatic || deck.schedule.bucketing == Bucketing::greedy);
}

/// The choice for a deck that leaves nothing open.
Chosen as_given(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                const passes::PassOptions& options) {
  const double limit = deck.schedule.memory_limit;
  if (limit <= 0) return {options, std::nullopt};
  plan::Plan plan = training_plan(deck, mesh, scratch, options);
  if (!fits(plan, limit))
    throw Error(ExitCode::bad_input,
                fmt::format("{}: the plan takes {} on a rank, the limit is {}; recompute = budget looks for "
                            "one that fits, and among several ranks bucketing = auto does",
                            place_of(deck, "schedule.memory_limit"), bytes_text(bytes_of(plan)),
                            bytes_text(static_cast<std::int64_t>(limit))));
  return {options, std::move(plan)};
}

std::int64_t rounds(const Deck& deck, const Mesh& mesh) {
  return accumulation(deck, mesh.batch_ranks());
}

class Chooser {
 public:
  /// Chooses for a deck; the real step has `more_rounds` more rounds than this deck.
  Chooser(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
          const machine::CostModel& costs, std::int64_t baseline, passes::PassOptions given,
          std::int64_t more_rounds = 0)
      : deck_(deck),
        mesh_(mesh),
        scratch_(scratch),
        costs_(costs),
        more_rounds_(more_rounds),
        given_(std::move(given)),
        baseline_(baseline),
        limit_(memory_limit(deck, costs, baseline)) {}

  Chosen run() {
    const bool automatic = deck_.schedule.bucketing == Bucketing::automatic;
    typed_ = passes::run(passes::before_sharding(given_), training_forward(deck_, mesh_));
    if (deck_.schedule.recompute == Recompute::budget) fit_by_recomputing();
    if (is_searched(deck_, mesh_) && (given_.partition || given_.context)) choose_what_hides();
    if (!is_searched(deck_, mesh_)) return {given_, std::move(fitted_->plan)};
    const search::Problem problem = read_problem();
    if (automatic) {
      consider_all(problem);
    } else {
      consider_within_limit([&](std::int64_t limit) { return by_rules(problem, limit); });
      if (!best_) consider(fitted_ ? std::move(*fitted_) : planned(units(problem)));
    }
    return best();
  }

 private:
  passes::PassOptions with(const search::Schedule& schedule) const {
    passes::PassOptions options = given_;
    options.buckets = schedule.buckets;
    options.order.prefetch = schedule.prefetch;
    options.order.delay = schedule.delay;
    if (deck_.schedule.regather == Regather::automatic) options.shard.keep_units = schedule.keep_units;
    return options;
  }

  /// Finds the first level of recomputation whose plan fits, by bisection: memory falls from level to level.
  /// Where no level fits, the distances that the deck leaves open (prefetch, reduce_delay) become 0, too.
  void fit_by_recomputing() {
    const search::RecomputeLevels levels(typed_, costs_);
    if (is_searched(deck_, mesh_)) given_.hoist.depth = 0;  // it comes later, where there is memory for it
    const auto fits_at = [&](int level) {
      given_.recompute = levels.at(level);
      Candidate candidate = planned(given_, passes::run(passes::sharding(given_), typed_));
      const bool good = fits(candidate.plan, limit_);
      if (good || !fitted_ || candidate.bytes < fitted_->bytes) fitted_ = std::move(candidate);
      return good;
    };
    int low = -1, high = levels.count();  // the plan of `low` does not fit, that of `high` does
    if (!fits_at(high)) {
      if (deck_.schedule.prefetch < 0) given_.order.prefetch = 0;
      if (deck_.schedule.reduce_delay < 0) given_.order.delay = 0;
      if (!fits_at(high)) refuse(fitted_->bytes);
    }
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (fits_at(middle) ? high : low) = middle;
    }
    given_ = fitted_->options;
  }

  /// Finds how collectives between activations hide best, with a collective for each unit: how many weight
  /// gradients are put off for them, and whether two microbatches take turns.
  void choose_what_hides() {
    std::optional<Candidate> best;
    const auto consider_with = [&](const passes::HoistOptions& hoist, passes::Turns turns) {
      passes::PassOptions options = given_;
      options.hoist = hoist;
      options.turns = turns;
      Candidate candidate = planned(options, passes::run(passes::sharding(options), typed_));
      candidate.seconds = step_seconds(candidate.plan, costs_, more_rounds_);
      if (!best || (fits(candidate.plan, limit_) && candidate.seconds < best->seconds))
        best = std::move(candidate);
    };
    constexpr passes::HoistOptions none{0, 1};
    for (const passes::HoistOptions& hoist : {none, {2, 1}, {4, 2}}) consider_with(hoist, given_.turns);
    if (deck_.schedule.alternate != Alternate::never && !given_.stage && rounds(deck_, mesh_) > 1) {
      const passes::HoistOptions hoist = best->options.hoist;
      for (const passes::Turns turns : {passes::Turns::whole, passes::Turns::half}) {
        consider_with(none, turns);
        if (hoist.depth > 0) consider_with(hoist, turns);
      }
    }
    given_.hoist = best->options.hoist;
    given_.turns = best->options.turns;
    if (fitted_) fitted_ = std::move(best);
  }

  Candidate planned(const passes::PassOptions& options, const ir::Graph& sharded) const {
    plan::Plan plan = lowered(passes::run(passes::after_sharding(options), sharded), deck_, scratch_);
    const std::int64_t bytes = bytes_of(plan);
    return {options, std::move(plan), 0, bytes};
  }

  [[noreturn]] void refuse(std::int64_t least) const {
    const bool by_schedule = deck_.schedule.memory_limit > 0 && limit_ >= deck_.schedule.memory_limit;
    const std::string key = by_schedule ? "schedule.memory_limit" : "run.memory_limit";
    const double limit = by_schedule ? deck_.schedule.memory_limit : deck_.run.memory_limit;
    throw Error(
        ExitCode::bad_input,
        fmt::format("{}: no plan fits (the smallest found takes {} on a rank, state and arena; the "
                    "limit is {}{}); {}use more ranks or a smaller data.batch, or raise {}",
                    place_of(deck_, key), bytes_text(least), bytes_text(static_cast<std::int64_t>(limit)),
                    by_schedule ? "" : fmt::format(", the baseline {}", bytes_text(baseline_)),
                    deck_.schedule.recompute == Recompute::budget ? "" : "recompute more, ", key));
  }

  search::Problem read_problem() {
    const ir::Graph& graph = sharded(given_);
    // No candidate is sharded in another way.
    if (deck_.schedule.regather != Regather::automatic) typed_ = {};
    for (const ir::Storage& s : graph.storages()) state_bytes_ += graph.local_bytes(s);
    return search::make_problem(graph, scratch_, costs_);
  }

  /// The step in which each unit has collectives of its own, each where it is needed. Candidates share it,
  /// unless other units stay gathered.
  const ir::Graph& sharded(const passes::PassOptions& options) {
    if (!sharded_ || kept_units_ != options.shard.keep_units)
      sharded_ = passes::run(passes::sharding(options), typed_);
    kept_units_ = options.shard.keep_units;
    return *sharded_;
  }

  /// The bytes that the limit leaves for the arena; 0: no limit.
  std::int64_t arena_limit() const {
    if (limit_ <= 0) return 0;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(limit_) - state_bytes_);
  }

  Candidate planned(const search::Schedule& schedule) {
    const passes::PassOptions options = with(schedule);
    Candidate candidate = planned(options, sharded(options));
    candidate.seconds = step_seconds(candidate.plan, costs_, more_rounds_);
    return candidate;
  }

  search::Schedule by_rules(const search::Problem& problem, std::int64_t live_limit) const {
    search::Schedule schedule = search::greedy(problem, costs_, live_limit);
    schedule.prefetch = given_.order.prefetch;
    schedule.delay = given_.order.delay;
    return schedule;
  }

  search::Schedule units(const search::Problem& problem) const {
    search::Schedule schedule = search::unit_schedule(problem);
    schedule.prefetch = given_.order.prefetch;
    schedule.delay = given_.order.delay;
    return schedule;
  }

  void consider_all(const search::Problem& problem) {
    if (fitted_) {
      fitted_->seconds = step_seconds(fitted_->plan, costs_, more_rounds_);
      consider(std::move(*fitted_));
    }
    const std::vector<int> blocks = unit_buckets(deck_, given_.stage, mesh_.size(tensor_axis));
    const search::Schedule greedy = by_rules(problem, arena_limit());
    search::Schedule manual = units(problem);
    manual.buckets = {blocks, blocks, blocks};
    consider(planned(manual));
    consider(planned(greedy));
    search::SearchOptions options;
    if (deck_.schedule.prefetch >= 0) options.prefetch = given_.order.prefetch;
    if (deck_.schedule.reduce_delay >= 0) options.delay = given_.order.delay;
    if (deck_.schedule.regather == Regather::automatic) options.keep = search::Keep::choose;
    consider_within_limit([&](std::int64_t limit) {
      options.live_limit = limit;
      return search::search(problem, costs_, options, {units(problem), manual, greedy});
    });
  }

  /// Makes a plan and considers it. The arena is a little larger than the live bytes in it, so where the plan
  /// does not fit, another one is made with a tighter limit. `make` gets the live bytes that are allowed, 0
  /// for any number.
  template <class Make>
  void consider_within_limit(Make&& make) {
    constexpr int attempts = 3;
    std::int64_t live_limit = arena_limit();
    for (int i = 0; i < attempts; ++i) {
      Candidate found = planned(make(live_limit));
      const std::int64_t excess = found.bytes - static_cast<std::int64_t>(limit_);
      const bool good = fits(found.plan, limit_);
      consider(std::move(found));
      live_limit -= excess;
      if (good || live_limit <= 0) break;
    }
  }

  Chosen best() {
    if (best_) return {best_->options, std::move(best_->plan)};
    const double limit = deck_.schedule.memory_limit;
    if (limit > 0 && static_cast<double>(smallest_->bytes) > limit) refuse(smallest_->bytes);
    return {smallest_->options, std::move(smallest_->plan)};
  }

  void consider(Candidate candidate) {
    if (fits(candidate.plan, limit_) && (!best_ || candidate.seconds < best_->seconds)) {
      best_ = std::move(candidate);
    } else if (!best_ && (!smallest_ || candidate.bytes < smallest_->bytes)) {
      smallest_ = std::move(candidate);
    }
  }

  const Deck& deck_;
  const Mesh& mesh_;
  const plan::ScratchQuery& scratch_;
  const machine::CostModel& costs_;
  std::int64_t more_rounds_;
  passes::PassOptions given_;
  ir::Graph typed_;  ///< the step before it is sharded: what all candidates begin with
  std::optional<ir::Graph> sharded_;
  int kept_units_ = 0;  ///< how many units stay gathered in sharded_
  std::int64_t baseline_;
  double limit_;  ///< bytes that a rank may take, by the deck or the machine; 0: no limit
  std::int64_t state_bytes_ = 0;
  std::optional<Candidate> fitted_;    ///< the plan that fits by recomputing
  std::optional<Candidate> best_;      ///< the fastest considered plan that fits
  std::optional<Candidate> smallest_;  ///< the smallest considered plan, while none fits
};

/// How many collectives of units the lane has in a phase of a round, of the round that has the most.
int most_in_a_round(const ir::Graph& step, ir::Phase phase, Lane lane) {
  std::vector<int> counts(static_cast<std::size_t>(step.rounds()));
  for (const ir::Node& node : step.nodes())
    if (ir::is_collective(node.op) && node.phase == phase && node.lane == lane &&
        step.value(node.outputs.front()).unit.valid())
      ++counts[static_cast<std::size_t>(node.round)];
  return *std::max_element(counts.begin(), counts.end());
}

/// How many buckets each kind of collective of units has, of those that there are.
std::string buckets_text(const ir::Graph& step) {
  const auto count = [&](ir::Phase phase, Lane lane) { return most_in_a_round(step, phase, lane); };
  const int forward = count(ir::Phase::forward, Lane::gather),
            backward = count(ir::Phase::backward, Lane::gather),
            update = count(ir::Phase::update, Lane::gather),
            reduce =
                std::max(count(ir::Phase::backward, Lane::reduce), count(ir::Phase::backward, Lane::replica));
  std::vector<std::string> kinds;
  if (forward + backward > 0)
    kinds.push_back(fmt::format("{} / {} gather buckets forward / backward", forward, backward));
  if (reduce > 0) kinds.push_back(fmt::format("{} reduce buckets", reduce));
  if (update > 0) kinds.push_back(fmt::format("{} gather buckets in the update", update));
  return kinds.empty() ? "no buckets" : fmt::format("{}", fmt::join(kinds, ", "));
}

/// Whether there is something to choose.
bool is_open(const Deck& deck, const Mesh& mesh) {
  return is_searched(deck, mesh) || deck.schedule.recompute == Recompute::budget;
}

/// Chooses for `deck` by plans of `fewer`, which has fewer rounds. The options are those of `fewer`.
Chosen chosen_by(const Deck& fewer, const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                 const machine::CostModel& costs, std::int64_t baseline, int pipe_rank) {
  return Chooser(fewer, mesh, scratch, costs, baseline, pass_options(fewer, mesh, pipe_rank),
                 rounds(deck, mesh) - rounds(fewer, mesh))
      .run();
}

}  // namespace

double memory_limit(const Deck& deck, const machine::CostModel& costs, std::int64_t baseline) {
  double limit = std::numeric_limits<double>::infinity();
  if (deck.schedule.memory_limit > 0) limit = deck.schedule.memory_limit;
  if (deck.run.memory_limit > 0)
    limit = std::min(limit, std::max(1.0, deck.run.memory_limit - static_cast<double>(baseline)));
  return std::isfinite(limit) ? limit : costs.profile().compute.memory_bytes;
}

Deck with_distinct_rounds(const Deck& deck, const Mesh& mesh, const passes::PassOptions& given) {
  const std::int64_t all = rounds(deck, mesh), more_rounds = all - distinct_rounds(given, all).value_or(all);
  // Without the memory pass each round takes memory of its own.
  if (more_rounds <= 0 || is_disabled(deck, "memory")) return deck;
  Deck fewer = deck;
  fewer.data.global_batch -= more_rounds * deck.data.batch * mesh.batch_ranks();
  return fewer;
}

Chosen choose_schedule(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                       const machine::CostModel& costs, std::int64_t baseline, int pipe_rank) {
  const passes::PassOptions given = pass_options(deck, mesh, pipe_rank);
  if (!is_open(deck, mesh)) return as_given(deck, mesh, scratch, given);
  const Deck fewer = with_distinct_rounds(deck, mesh, given);
  if (rounds(fewer, mesh) < rounds(deck, mesh)) {
    Chosen chosen = chosen_by(fewer, deck, mesh, scratch, costs, baseline, pipe_rank);
    chosen.options.stage = given.stage;  // that of all rounds
    const double limit = memory_limit(deck, costs, baseline);
    const bool fitted = fits(*chosen.plan, limit);
    chosen.plan = training_plan(deck, mesh, scratch, chosen.options);
    if (fits(*chosen.plan, limit)) return chosen;
    // Preflight reports what is missing.
    if (!fitted && fits(*chosen.plan, deck.schedule.memory_limit)) return chosen;
  }
  return Chooser(deck, mesh, scratch, costs, baseline, given).run();
}

plan::Plan plan_of_distinct_rounds(const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                                   const machine::CostModel& costs, std::int64_t baseline, int pipe_rank) {
  const Deck fewer = with_distinct_rounds(deck, mesh, pass_options(deck, mesh, pipe_rank));
  Chosen chosen = is_open(deck, mesh) ? chosen_by(fewer, deck, mesh, scratch, costs, baseline, pipe_rank)
                                      : as_given(fewer, mesh, scratch, pass_options(fewer, mesh, pipe_rank));
  return take_plan(chosen, fewer, mesh, scratch);
}

plan::Plan take_plan(Chosen& chosen, const Deck& deck, const Mesh& mesh, const plan::ScratchQuery& scratch,
                     const passes::Observer& observer) {
  if (chosen.plan) return *std::exchange(chosen.plan, std::nullopt);
  return training_plan(deck, mesh, scratch, chosen.options, observer);
}

std::string schedule_text(const passes::PassOptions& options, const plan::Plan& plan) {
  std::string text = "schedule: " + (options.buckets ? buckets_text(plan.graph) : "a bucket a unit");
  text += fmt::format(", prefetch {}, delay {}", options.order.prefetch, options.order.delay);
  if (options.partition || options.context)
    text += fmt::format(", {} weight gradients put off", options.hoist.depth);
  if (passes::microbatches_take_turns(options))
    text +=
        fmt::format(", microbatches in {} turns", options.turns == passes::Turns::half ? "half" : "whole");
  if (options.shard.keep_units > 0) text += fmt::format(", {} units stay gathered", options.shard.keep_units);
  if (options.recompute.what == Recompute::full) text += ", recompute full";
  const char* separator = ", recompute ";
  for (const passes::RecomputeRule& rule : options.recompute.rules) {
    text += separator + passes::text_of(rule);
    separator = " ";
  }
  return text;
}

}  // namespace weft::compile
