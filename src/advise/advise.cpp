#include "advise/advise.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "advise/estimate.hpp"
#include "advise/parallel.hpp"
#include "base/check.hpp"
#include "base/text.hpp"
#include "compile/programs.hpp"
#include "compile/scheduling.hpp"
#include "compile/teams.hpp"

namespace weft::advise {
namespace {

/// An estimate may be this much above the limit, because the plan decides.
constexpr double slack = 1.1;
/// The bytes of what has no plan.
constexpr std::int64_t no_plan = std::numeric_limits<std::int64_t>::max();
/// How many shapes are planned at first, and how many of them improved: by how many neighbours, and how
/// often.
constexpr std::size_t most_shapes = 12, most_improved = 3, most_neighbours = 8;
constexpr int most_rounds = 2;
/// How many of the best are searched at least: a search may change the order of neighbours.
constexpr std::size_t least_searched = 3;

struct Candidate {
  Arrangement arrangement;
  Estimate estimate;
};

/// An estimate, or why there is none. Neither: nobody has asked for it.
struct Estimated {
  std::optional<Estimate> estimate;
  std::optional<Error> refused;
};

/// A step, which takes forever where there is no plan, and why there is none.
using Planned = std::pair<compile::PredictedStep, std::optional<Error>>;

/// The profile of a machine whose links are twice as fast.
machine::Profile with_twice_the_links(machine::Profile profile) {
  profile.sharing.link_bytes_per_s *= 2;
  for (machine::CollectiveCurve& curve : profile.collectives)
    for (machine::CollectivePoint& point : curve.points) point.seconds /= 2;
  return profile;
}

class Adviser {
 public:
  explicit Adviser(const Question& question)
      : q_(question),
        limit_(compile::memory_limit(q_.deck, q_.costs, q_.baseline)),
        one_by_one_([this](const ir::Graph& graph, const ir::Node& node) {
          const std::lock_guard lock(asking_);
          return q_.scratch(graph, node);
        }),
        faster_links_(with_twice_the_links(q_.costs.profile())) {}

  Advice run() {
    // What is wrong with the deck on any mesh is told as it is. Below, what a plan refuses is one arrangement
    // less.
    compile::pass_options(q_.deck, Mesh({{std::string(data_axis), 1}}));
    compile::unit_buckets(q_.deck, std::nullopt, 1);
    const std::vector<Arrangement> all = arrangements(q_.deck, q_.world, q_.per_host, q_.kept);
    WEFT_VALIDATE(
        !all.empty(),
        "{}: {} ranks can share data.global_batch = {} in no way that the deck's sizes allow; use a "
        "number of ranks that has divisors in common with it",
        place_of(q_.deck, "parallel.mesh"), q_.world, q_.deck.data.global_batch);
    estimate(all);
    plan_the_best();
    Advice advice;
    advice.possible = all.size();
    advice.limit = limit_;
    for (const Candidate& c : candidates_)
      if (within(c.estimate.bytes, 1)) ++advice.fitting;
    advice.planned = planned_.size();
    advice.rows = best_rows();
    if (advice.rows.empty()) refuse();
    return advice;
  }

  /// Adds what only readers of the whole advice need.
  void explain(Advice& advice) const {
    add_what_helps(advice.rows);
    advice.given = given();
  }

 private:
  bool within(std::int64_t bytes, double factor) const {
    return bytes < no_plan && (limit_ <= 0 || static_cast<double>(bytes) <= factor * limit_);
  }

  /// Finds the arrangements that fit, and those that would with twice the memory, best first by their
  /// estimates. Larger batches are looked at as long as they are faster, and recomputation only as far as it
  /// is needed to fit.
  void estimate(const std::vector<Arrangement>& all) {
    Estimator estimator(q_.deck, q_.world, q_.per_host, one_by_one_, q_.costs);
    std::vector<std::size_t> begins;  // of stretches that differ only in batch and recomputation
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i == 0 || !alike(all[i - 1], all[i])) begins.push_back(i);
    begins.push_back(all.size());
    std::vector<Estimated> estimates(all.size());
    for_all(begins.size() - 1, [&](std::size_t stretch) {
      estimate_batches(estimator, all, begins[stretch], begins[stretch + 1], estimates);
    });
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Estimated& e = estimates[i];
      if (e.refused && !refused_) refused_ = e.refused;
      if (e.estimate && within(e.estimate->bytes, 2)) candidates_.push_back({all[i], *e.estimate});
    }
    std::stable_sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.estimate.seconds < b.estimate.seconds;
    });
  }

  /// Whether the two differ at most in batch and recomputation.
  static bool alike(Arrangement a, const Arrangement& b) {
    a.batch = b.batch;
    a.recompute = b.recompute;
    return a == b;
  }

  /// Estimates those from `begin` to `end`, which are alike.
  void estimate_batches(Estimator& estimator, const std::vector<Arrangement>& all, std::size_t begin,
                        std::size_t end, std::vector<Estimated>& estimates) const {
    constexpr double worth = 0.99;  // of the seconds
    double best = std::numeric_limits<double>::infinity();
    while (begin < end) {
      std::size_t next = begin;  // of the next batch
      while (next < end && all[next].batch == all[begin].batch) ++next;
      double of_batch = std::numeric_limits<double>::infinity();
      for (std::size_t i = begin; i < next; ++i) {
        if (!within(estimator.least_bytes(all[i]), 2)) continue;
        try {
          estimates[i].estimate = estimator(all[i]);
        } catch (const Error& e) {
          estimates[i].refused = e;
          continue;
        }
        of_batch = std::min(of_batch, estimates[i].estimate->seconds);
        if (within(estimates[i].estimate->bytes, 1 / slack)) break;
      }
      if (of_batch > worth * best) return;
      best = of_batch;
      begin = next;
    }
  }

  compile::PredictedStep predicted(const Deck& deck, const machine::CostModel& costs) const {
    Mesh mesh = resolve_mesh(deck, q_.world);
    mesh.set_teams(compile::teams_of(deck, mesh, q_.costs.profile(), q_.per_host));
    return compile::predicted_step(deck, mesh, one_by_one_, costs, q_.baseline);
  }
  Planned predicted_or_refused(const Deck& deck, const machine::CostModel& costs) const {
    try {
      return {predicted(deck, costs), std::nullopt};
    } catch (const Error& e) {
      compile::PredictedStep never;
      never.seconds = std::numeric_limits<double>::infinity();
      never.bytes = no_plan;
      return {never, e};
    }
  }

  /// The deck with a bucket a layer, and with microbatches in turns or not: one plan, where a search makes
  /// many.
  Deck quickly(Deck deck, bool turns) const {
    if (deck.schedule.bucketing != Bucketing::automatic) return deck;
    deck.schedule.bucketing = Bucketing::manual;
    // A search may still find a plan that is within the limit. But a budget recomputes nothing without one.
    if (deck.schedule.recompute != Recompute::budget) deck.schedule.memory_limit = 0;
    if (deck.schedule.alternate == Alternate::automatic)
      deck.schedule.alternate = turns ? Alternate::always : Alternate::never;
    return deck;
  }
  /// `deck` has the arrangement in it.
  Planned predicted_quickly(const Arrangement& a, const Deck& deck, const machine::CostModel& costs) const {
    const bool travels = a.size(tensor_axis) > 1 || a.size(context_axis) > 1;
    if (travels && a.size(pipe_axis) == 1) {
      Planned planned = predicted_or_refused(quickly(deck, true), costs);
      if (within(planned.first.bytes, 1)) return planned;
    }
    return predicted_or_refused(quickly(deck, false), costs);
  }

  /// Plans the candidates, quickly.
  void plan(const std::vector<const Candidate*>& candidates) {
    std::vector<Row> rows(candidates.size());
    for_all(candidates.size(), [&](std::size_t i) {
      Row& row = rows[i];
      row.arrangement = candidates[i]->arrangement;
      row.estimated_s = candidates[i]->estimate.seconds;
      std::tie(row.step, row.refused) =
          predicted_quickly(row.arrangement, arranged(q_.deck, row.arrangement), q_.costs);
      row.quick_s = row.step.seconds;
    });
    for (Row& row : rows) planned_.push_back(std::move(row));
    std::stable_sort(planned_.begin(), planned_.end(), [this](const Row& a, const Row& b) {
      const auto rank = [this](const Row& row) {
        return std::pair(!within(row.step.bytes, slack), row.step.seconds);
      };
      return rank(a) < rank(b);
    });
  }

  bool is_planned(const Arrangement& arrangement) const {
    return std::any_of(planned_.begin(), planned_.end(),
                       [&](const Row& row) { return row.arrangement == arrangement; });
  }
  bool any_fits() const {
    return std::any_of(planned_.begin(), planned_.end(),
                       [this](const Row& row) { return within(row.step.bytes, slack); });
  }

  /// What an estimate is worst at telling apart: how the model is cut.
  static std::array<int, 3> shape_of(const Arrangement& a) {
    return {a.size(pipe_axis), a.size(context_axis), a.size(tensor_axis)};
  }

  /// Plans the best arrangement of each of the best shapes, and then improves the best few of these.
  /// While nothing fits, it goes on with more shapes.
  void plan_the_best() {
    std::vector<const Candidate*> of_shapes;
    std::set<std::array<int, 3>> seen;
    for (const Candidate& c : candidates_)
      if (within(c.estimate.bytes, slack) && seen.insert(shape_of(c.arrangement)).second)
        of_shapes.push_back(&c);
    for (std::size_t begin = 0; begin < of_shapes.size() && !any_fits(); begin += most_shapes) {
      const std::size_t end = std::min(of_shapes.size(), begin + most_shapes);
      plan({of_shapes.begin() + static_cast<std::ptrdiff_t>(begin),
            of_shapes.begin() + static_cast<std::ptrdiff_t>(end)});
    }
    std::vector<std::array<int, 3>> best;
    for (const Row& row : planned_)
      if (best.size() < most_improved) best.push_back(shape_of(row.arrangement));
    for (const std::array<int, 3>& shape : best) improve(shape);
  }

  /// Counts the settings in which two arrangements differ.
  static int differences(const Arrangement& a, const Arrangement& b) {
    return (a.mesh != b.mesh) + (a.mode != b.mode) + (a.schedule != b.schedule || a.chunks != b.chunks) +
           (a.batch != b.batch) + (a.recompute != b.recompute);
  }

  /// Goes from the best that is planned of a shape to the best of those that differ from it in one setting,
  /// as long as that gains something.
  void improve(const std::array<int, 3>& shape) {
    const auto best_of_shape = [&]() -> const Row* {
      for (const Row& row : planned_)
        if (shape_of(row.arrangement) == shape && within(row.step.bytes, slack)) return &row;
      for (const Row& row : planned_)
        if (shape_of(row.arrangement) == shape) return &row;
      return nullptr;
    };
    for (int round = 0; round < most_rounds; ++round) {
      const Arrangement from = best_of_shape()->arrangement;
      std::vector<const Candidate*> next;
      for (const Candidate& c : candidates_)
        if (next.size() < most_neighbours && shape_of(c.arrangement) == shape &&
            differences(c.arrangement, from) == 1 && within(c.estimate.bytes, slack) &&
            !is_planned(c.arrangement))
          next.push_back(&c);
      plan(next);
      if (best_of_shape()->arrangement == from) return;
    }
  }

  /// Plans a row as the deck says.
  void search(Row& row) const {
    // A search spends a budget with a collective for each unit, which takes less than a bucket a layer.
    const bool may_fit =
        within(row.step.bytes, slack) || (row.refused && row.arrangement.recompute == Recompute::budget);
    if (may_fit)
      std::tie(row.step, row.refused) = predicted_or_refused(arranged(q_.deck, row.arrangement), q_.costs);
  }

  /// The best that fit, now planned as the deck says: a search finds plans that take less memory.
  std::vector<Row> best_rows() {
    const std::size_t at_once = std::max(least_searched, q_.rows + 1);
    std::vector<Row> fitting;
    for (std::size_t begin = 0; begin < planned_.size() && fitting.size() < q_.rows; begin += at_once) {
      const std::size_t end = std::min(begin + at_once, planned_.size());
      for_all(end - begin, [&](std::size_t i) { search(planned_[begin + i]); });
      for (std::size_t i = begin; i < end; ++i)
        if (within(planned_[i].step.bytes, 1)) fitting.push_back(planned_[i]);
    }
    std::stable_sort(fitting.begin(), fitting.end(),
                     [](const Row& a, const Row& b) { return a.step.seconds < b.step.seconds; });
    if (fitting.size() > q_.rows) fitting.resize(q_.rows);
    return fitting;
  }

  [[noreturn]] void refuse() const {
    const double whole = q_.deck.run.memory_limit;
    WEFT_VALIDATE(
        whole <= 0 || static_cast<double>(q_.baseline) < whole,
        "{}: the process alone takes {} on a rank, without a model (its baseline), and the limit is "
        "{}; raise run.memory_limit",
        place_of(q_.deck, "run.memory_limit"), bytes_text(q_.baseline),
        bytes_text(static_cast<std::int64_t>(whole)));
    std::int64_t least = no_plan;
    for (const Row& row : planned_) least = std::min(least, row.step.bytes);
    // Where nothing was planned, all estimates are above the limit.
    if (planned_.empty())
      for (const Candidate& c : candidates_) least = std::min(least, c.estimate.bytes);
    // Where there is no size at all, memory is not known to be what is missing.
    if (least == no_plan && !planned_.empty()) throw *planned_.front().refused;
    if (least == no_plan && refused_) throw *refused_;
    const std::string smallest =
        least == no_plan ? "the state alone is larger" : "the smallest takes about " + bytes_text(least);
    throw Error(
        ExitCode::bad_input,
        fmt::format("{}: no arrangement over {} ranks fits ({} on a rank, the limit leaves {}); use more "
                    "ranks, or a machine with more memory",
                    place_of(q_.deck, "parallel.mesh"), q_.world, smallest,
                    bytes_text(static_cast<std::int64_t>(limit_))));
  }

  /// Says for each row which of three changes would help most: twice the batch, links twice as fast, or the
  /// memory for what is faster and does not fit.
  void add_what_helps(std::vector<Row>& rows) const {
    const auto larger = std::find_if(candidates_.begin(), candidates_.end(),
                                     [this](const Candidate& c) { return !within(c.estimate.bytes, slack); });
    std::vector<double> with_batch(rows.size()), with_links(rows.size());
    for_all(2 * rows.size(), [&](std::size_t i) {
      const Arrangement& arrangement = rows[i / 2].arrangement;
      Deck deck = arranged(q_.deck, arrangement);
      if (i % 2 == 0) {
        deck.data.global_batch *= 2;
        with_batch[i / 2] = predicted_quickly(arrangement, deck, q_.costs).first.seconds;
      } else {
        with_links[i / 2] = predicted_quickly(arrangement, deck, faster_links_).first.seconds;
      }
    });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double as_it_is = rows[i].quick_s;
      if (!std::isfinite(as_it_is)) continue;  // only a search has found a plan
      const double batch = 2 * as_it_is / with_batch[i] - 1, links = as_it_is / with_links[i] - 1;
      const double memory =
          larger == candidates_.end() ? 0 : rows[i].estimated_s / larger->estimate.seconds - 1;
      const double best = std::max({batch, links, memory});
      if (best < 0.01) continue;
      std::string what = "twice the batch";
      if (best == links) what = "links twice as fast";
      if (best == memory)
        what = fmt::format("{} a rank for {}", bytes_text(larger->estimate.bytes),
                           short_text(larger->arrangement));
      rows[i].next = fmt::format("{}: +{:.0f} %", what, 100 * best);
    }
  }

  std::optional<Row> given() const {
    if (q_.deck.parallel.mesh.empty()) return std::nullopt;
    Row row;
    try {
      row.arrangement = arrangement_of(q_.deck, q_.world);
    } catch (const Error&) {  // the deck's mesh is for another number of ranks
      return std::nullopt;
    }
    std::tie(row.step, row.refused) = predicted_or_refused(q_.deck, q_.costs);
    return row;
  }

  const Question& q_;
  const double limit_;
  std::mutex asking_;  ///< a library prepares products for the query
  const plan::ScratchQuery one_by_one_;
  const machine::CostModel faster_links_;
  std::vector<Candidate> candidates_;  ///< what has an estimate, best first
  std::optional<Error> refused_;       ///< why the first that has no estimate has none
  std::vector<Row> planned_;           ///< those that may fit, best first, and then the others
};

}  // namespace

Advice advise(const Question& question) {
  Adviser adviser(question);
  Advice advice = adviser.run();
  adviser.explain(advice);
  return advice;
}

Arrangement chosen_arrangement(Question question) {
  question.kept = keys_given(question.deck);
  question.rows = 1;
  return Adviser(question).run().rows.front().arrangement;
}

std::vector<std::string> chosen_settings(Question question) {
  return settings(chosen_arrangement(std::move(question)));
}

}  // namespace weft::advise
