#include "search/schedule.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "machine/lanes.hpp"
#include "passes/collectives.hpp"

namespace weft::search {
namespace {

/// The gathers, reductions or sums over replicas of several units as one.
struct Bucket {
  std::size_t slot = 0;  ///< a gather's first use, or the last gradient of a reduction or a sum
  double wire_bytes = 0;
  std::int64_t bytes = 0;
  std::size_t after = 0;  ///< how many reductions a sum over replicas waits for
};

class Estimator {
 public:
  Estimator(const Problem& problem, const Schedule& schedule, const machine::CostModel& costs)
      : p_(problem),
        s_(schedule),
        costs_(costs),
        extra_(problem.slots.size() + 1, 0),
        reduced_by_(problem.units, 0) {}

  Estimate run(double late_seconds) {
    collect_gathers();
    collect_reduces();
    collect_sums();
    machine::LaneTasks tasks;
    compute(tasks);
    gathers(tasks);
    reduces(tasks);
    sums(tasks);
    fixed(tasks);
    Estimate e;
    e.seconds = machine::run_lanes(tasks, costs_, late_seconds).end;
    e.live_bytes = peak();
    e.collectives = static_cast<int>(gathers_.size() + reduces_.size() + sums_.size());
    return e;
  }

 private:
  /// Counts bytes that are held in slots [from, to), beyond what the problem counts.
  void hold(std::size_t from, std::size_t to, std::int64_t bytes) {
    from = std::min(from, p_.slots.size());
    to = std::min(to, p_.slots.size());
    if (from >= to) return;
    extra_[from] += bytes;
    extra_[to] -= bytes;
  }

  void collect_gathers() {
    const Gather* last = nullptr;
    std::set<std::size_t> members;
    std::vector<const Gather*> forward(p_.units, nullptr);  // the newest gather of each unit
    for (const Gather& g : p_.gathers) {
      const bool backward = g.phase == ir::Phase::backward;
      const Gather*& copy = forward[g.unit.index()];
      if (!backward) copy = &g;
      if (backward && passes::stays_gathered(g.unit, s_.keep_units, p_.units) && copy != nullptr &&
          copy->round == g.round) {
        hold(copy->last + 1, g.use, g.bytes);
        continue;
      }
      const auto& numbers = backward ? s_.buckets.backward : s_.buckets.forward;
      const bool joins = last != nullptr && last->phase == g.phase && last->round == g.round &&
                         numbers[last->unit.index()] == numbers[g.unit.index()] &&
                         !members.contains(g.unit.index());
      if (!joins) {
        gathers_.push_back({g.use, 0, 0});
        members.clear();
      }
      members.insert(g.unit.index());
      last = &g;
      Bucket& bucket = gathers_.back();
      bucket.wire_bytes += g.wire_bytes;
      bucket.bytes += g.bytes;
      hold(bucket.slot, g.use, g.bytes);
    }
    for (std::size_t b = 0; b < gathers_.size(); ++b)
      hold(issue_slot(b), gathers_[b].slot, gathers_[b].bytes);
  }

  /// The slot before which a gather is submitted: the one that uses the gather `prefetch` places earlier.
  std::size_t issue_slot(std::size_t bucket) const {
    return gathers_[bucket - std::min(bucket, static_cast<std::size_t>(s_.prefetch))].slot;
  }

  void collect_reduces() {
    struct Open {
      std::size_t bucket;
      std::vector<const Reduce*> members;
    };
    // By round, the bucket that may still grow; of several rounds where they take turns.
    std::map<int, Open> open;
    const auto close = [&](const Open& o) {
      for (const Reduce* m : o.members) hold(m->ready + 1, reduces_[o.bucket].slot + 1, m->bytes);
    };
    for (const Reduce& r : p_.reduces) {
      if (!p_.turns && !open.contains(r.round)) {
        for (const auto& [round, o] : open) close(o);
        open.clear();
      }
      const auto last = open.find(r.round);
      const bool joins = last != open.end() && s_.buckets.reduce[last->second.members.back()->unit.index()] ==
                                                   s_.buckets.reduce[r.unit.index()];
      if (!joins) {
        if (last != open.end()) close(last->second);
        open[r.round] = {reduces_.size(), {}};
        reduces_.push_back({});
      }
      Open& own = open[r.round];
      own.members.push_back(&r);
      reduced_by_[r.unit.index()] = own.bucket + 1;
      Bucket& bucket = reduces_[own.bucket];
      bucket.slot = r.ready;
      bucket.wire_bytes += r.wire_bytes;
      bucket.bytes += r.bytes;
    }
    for (const auto& [round, o] : open) close(o);
    if (p_.turns) sort_reduces();
    for (std::size_t b = 0; b < reduces_.size(); ++b)
      hold(reduces_[b].slot + 1, release_slot(reduces_, b) + 1, reduces_[b].bytes);
  }

  /// Puts the buckets of rounds that take turns into the order in which they are submitted: that of their
  /// last members.
  void sort_reduces() {
    std::vector<std::size_t> order(reduces_.size()), place(reduces_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return reduces_[a].slot < reduces_[b].slot; });
    std::vector<Bucket> sorted;
    for (const std::size_t bucket : order) {
      place[bucket] = sorted.size();
      sorted.push_back(reduces_[bucket]);
    }
    reduces_ = std::move(sorted);
    for (std::size_t& by : reduced_by_)
      if (by > 0) by = place[by - 1] + 1;
  }

  /// Collects the sums, in buckets like those of the reduce-scatters that they follow.
  void collect_sums() {
    const ReplicaSum* last = nullptr;
    for (const ReplicaSum& s : p_.sums) {
      if (last == nullptr || s_.buckets.reduce[last->unit.index()] != s_.buckets.reduce[s.unit.index()])
        sums_.push_back({});
      last = &s;
      Bucket& sum = sums_.back();
      sum.slot = s.ready;
      sum.wire_bytes += s.wire_bytes;
      sum.bytes += s.bytes;
      sum.after = std::max(sum.after, reduced_by_[s.unit.index()]);
    }
    for (std::size_t b = 0; b < sums_.size(); ++b)
      hold(sums_[b].slot + 1, release_slot(sums_, b) + 1, sums_[b].bytes);
  }

  /// The slot after which a reduction's operands and scratch may be overwritten.
  std::size_t release_slot(const std::vector<Bucket>& lane, std::size_t bucket) const {
    const std::size_t later = bucket + static_cast<std::size_t>(s_.delay);
    const std::size_t until = p_.last_node[lane[bucket].slot] + passes::longest_hold(s_.delay);
    const auto end = std::upper_bound(p_.last_node.begin(), p_.last_node.end(), until);
    const auto last = static_cast<std::size_t>(end - p_.last_node.begin());
    return later < lane.size() ? std::min(last, lane[later].slot) : last;
  }

  void compute(machine::LaneTasks& tasks) const {
    auto& lane = tasks[Lane::compute];
    lane.resize(p_.slots.size());
    for (std::size_t i = 0; i < lane.size(); ++i) lane[i].seconds = p_.slots[i];
    const auto needs = [&](std::size_t slot, Lane of, std::size_t count) {
      if (slot >= lane.size()) return;
      std::uint32_t& after = lane[slot].after[of];
      after = std::max(after, static_cast<std::uint32_t>(count));
    };
    for (std::size_t b = 0; b < gathers_.size(); ++b) needs(gathers_[b].slot, Lane::gather, b + 1);
    for (std::size_t b = 0; b < reduces_.size(); ++b)
      needs(release_slot(reduces_, b) + 1, Lane::reduce, b + 1);
    needs(p_.sums_use, Lane::replica, sums_.size());  // their scratch is small, so compute finds other memory
    PerLane<std::size_t> count{0, gathers_.size(), reduces_.size(), sums_.size()};
    for (const Fixed& f : p_.fixed) needs(f.use, f.lane, ++count[f.lane]);
  }

  void gathers(machine::LaneTasks& tasks) const {
    for (std::size_t b = 0; b < gathers_.size(); ++b) {
      machine::LaneTask task;
      task.seconds =
          costs_.collective_seconds(ir::Op::all_gather, p_.ranks, gathers_[b].wire_bytes, p_.gather_type);
      task.bytes = gathers_[b].wire_bytes;
      task.link = costs_.link_of(p_.ranks);
      // This holds even if the host submits nothing: the memory that the gather writes is in use until about
      // then.
      task.after[Lane::compute] = static_cast<std::uint32_t>(issue_slot(b));
      tasks[Lane::gather].push_back(task);
    }
  }

  void reduces(machine::LaneTasks& tasks) const {
    for (const Bucket& b : reduces_) {
      machine::LaneTask task;
      task.seconds =
          costs_.collective_seconds(ir::Op::reduce_scatter, p_.ranks, b.wire_bytes, p_.reduce_type);
      task.bytes = b.wire_bytes;
      task.link = costs_.link_of(p_.ranks);
      task.after[Lane::compute] = static_cast<std::uint32_t>(b.slot + 1);
      tasks[Lane::reduce].push_back(task);
    }
  }

  void sums(machine::LaneTasks& tasks) const {
    for (const Bucket& s : sums_) {
      machine::LaneTask task;
      task.seconds = costs_.collective_seconds(ir::Op::all_reduce, p_.replicas, s.wire_bytes, DType::f32);
      task.bytes = s.wire_bytes;
      task.link = costs_.link_of(p_.replicas);
      task.after[Lane::compute] = static_cast<std::uint32_t>(s.slot + 1);
      task.after[Lane::reduce] = static_cast<std::uint32_t>(s.after);
      tasks[Lane::replica].push_back(task);
    }
  }

  void fixed(machine::LaneTasks& tasks) const {
    for (const Fixed& f : p_.fixed) {
      machine::LaneTask task;
      task.seconds = f.seconds;
      task.bytes = f.wire_bytes;
      task.link = f.link;
      task.after[Lane::compute] = static_cast<std::uint32_t>(f.after);
      tasks[f.lane].push_back(task);
    }
  }

  std::int64_t peak() const {
    std::int64_t most = 0, extra = 0;
    for (std::size_t i = 0; i < p_.slots.size(); ++i) {
      extra += extra_[i];
      most = std::max(most, p_.live[i] + extra);
    }
    return most;
  }

  const Problem& p_;
  const Schedule& s_;
  const machine::CostModel& costs_;
  std::vector<Bucket> gathers_, reduces_, sums_;
  std::vector<std::int64_t> extra_;  ///< differences of the held bytes from slot to slot
  /// By unit: how many reductions there are up to that of its last round.
  std::vector<std::size_t> reduced_by_;
};

}  // namespace

Estimate estimate(const Problem& problem, const Schedule& schedule, const machine::CostModel& costs,
                  double late_seconds) {
  return Estimator(problem, schedule, costs).run(late_seconds);
}

}  // namespace weft::search
