// SimpleFSDP's greedy algorithm for buckets (declared in search.hpp).
#include <algorithm>

#include "search/search.hpp"

namespace weft::search {
namespace {

constexpr double largest_share = 0.2;  // the most of all gathered bytes that a bucket may have
// Reductions are flushed when the compute that is left takes less time than this many of them.
constexpr double flush_factor = 5;

/// Walks one round's step in program order: gathers, compute slot by slot, reductions.
class Greedy {
 public:
  Greedy(const Problem& problem, const machine::CostModel& costs, std::int64_t live_limit)
      : p_(problem), costs_(costs), limit_(live_limit), schedule_(unit_schedule(problem)) {
    for (const Gather& g : p_.gathers)
      if (g.round == 0) all_bytes_ += g.wire_bytes;
    for (const double s : p_.slots) left_ += s;
  }

  Schedule run() {
    std::size_t gather = 0, reduce = 0;
    for (std::size_t slot = 0; slot < p_.slots.size(); ++slot) {
      for (; gather < p_.gathers.size() && p_.gathers[gather].use == slot; ++gather)
        if (p_.gathers[gather].round == 0) add(p_.gathers[gather]);
      compute_ += p_.slots[slot];
      left_ -= p_.slots[slot];
      for (; reduce < p_.reduces.size() && p_.reduces[reduce].ready == slot; ++reduce)
        if (p_.reduces[reduce].round == 0) add(p_.reduces[reduce]);
    }
    return schedule_;
  }

 private:
  double gather_seconds(double bytes) const {
    return costs_.collective_seconds(ir::Op::all_gather, p_.ranks, bytes, p_.gather_type);
  }
  double reduce_seconds() const {
    return costs_.collective_seconds(ir::Op::reduce_scatter, p_.ranks, reduce_wire_, p_.reduce_type);
  }

  void add(const Gather& g) {
    const double bytes = gather_wire_ + g.wire_bytes;
    const bool exposed = gather_seconds(bytes) + reduce_seconds() > compute_;
    const bool too_much_memory = limit_ > 0 && p_.live[g.use] + gathered_ + g.bytes + reduced_ > limit_;
    const bool too_large = bytes > largest_share * all_bytes_;
    const bool border = phase_ != g.phase;  // nothing is gathered across a border of phases
    if (border || (compute_ > 0 && (exposed || too_much_memory || too_large))) close();
    phase_ = g.phase;
    gather_wire_ += g.wire_bytes;
    gathered_ += g.bytes;
    auto& numbers = g.phase == ir::Phase::forward ? schedule_.buckets.forward : schedule_.buckets.backward;
    numbers[g.unit.index()] = gather_bucket_;
  }

  void add(const Reduce& r) {
    // When backward gathers nothing, no gather closes the bucket, so memory does.
    if (limit_ > 0 && reduced_ > 0 && p_.live[r.ready] + gathered_ + reduced_ + r.bytes > limit_) flush();
    reduce_wire_ += r.wire_bytes;
    reduced_ += r.bytes;
    schedule_.buckets.reduce[r.unit.index()] = reduce_bucket_;
    if (left_ < flush_factor * reduce_seconds()) flush();
  }

  void close() {
    ++gather_bucket_;
    gather_wire_ = 0;
    gathered_ = 0;
    compute_ = 0;
    flush();
  }
  void flush() {
    ++reduce_bucket_;
    reduce_wire_ = 0;
    reduced_ = 0;
  }

  const Problem& p_;
  const machine::CostModel& costs_;
  std::int64_t limit_;
  Schedule schedule_;
  ir::Phase phase_ = ir::Phase::forward;
  double all_bytes_ = 0, left_ = 0,
         compute_ = 0;  ///< seconds of compute that are still to come, and seconds since the last close
  double gather_wire_ = 0, reduce_wire_ = 0;  ///< seconds on the wire of the open buckets
  std::int64_t gathered_ = 0, reduced_ = 0;
  int gather_bucket_ = 0, reduce_bucket_ = 0;
};

}  // namespace

Schedule greedy(const Problem& problem, const machine::CostModel& costs, std::int64_t live_limit) {
  return Greedy(problem, costs, live_limit).run();
}

}  // namespace weft::search
