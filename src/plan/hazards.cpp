#include "plan/hazards.hpp"

namespace weft::plan {

std::map<std::int64_t, AddressSpace::Stretch>::iterator AddressSpace::split(std::int64_t at) {
  auto next = stretches_.lower_bound(at);
  if (next != stretches_.end() && next->first == at) return next;
  if (next == stretches_.begin()) return next;
  auto before = std::prev(next);
  if (before->second.end <= at) return next;
  Stretch rest = before->second;
  before->second.end = at;
  return stretches_.emplace_hint(next, at, rest);
}

void AddressSpace::access(std::int64_t begin, std::int64_t end, Lane lane, std::uint64_t sequence,
                          Access kind, Clock& waits) {
  if (begin >= end) return;
  const auto last = split(end);
  auto it = split(begin);
  if (kind == Access::write) {  // afterwards all of its bytes are alike: one stretch
    for (; it != last; it = stretches_.erase(it)) {
      raise(waits, it->second.written);
      raise(waits, it->second.read);
    }
    Stretch written{end, {}, {}};
    written.written[lane] = sequence;
    stretches_.emplace_hint(last, begin, written);
    return;
  }
  for (std::int64_t at = begin; at < end; ++it) {
    if (it == stretches_.end() || it->first > at) {  // nobody has touched these bytes yet
      const std::int64_t gap_end = it == stretches_.end() ? end : std::min(end, it->first);
      it = stretches_.emplace_hint(it, at, Stretch{gap_end, {}, {}});
    }
    Stretch& stretch = it->second;
    raise(waits, stretch.written);
    stretch.read[lane] = std::max(stretch.read[lane], sequence);
    at = stretch.end;
  }
}

std::vector<Wait> WaitReducer::reduce(Lane lane, std::uint64_t sequence, const Clock& waits) {
  std::vector<Clock>& own = seen_[lane];
  const Clock known = own.empty() ? Clock{} : own.back();
  const auto is_new = [&](Lane other) { return other != lane && waits[other] > known[other]; };
  std::vector<Wait> kept;
  // The latest wait for another lane may imply the others: look at the lanes in order, and drop what is known
  // by then.
  Clock after = known;
  for (const Lane other : all_lanes)
    if (is_new(other)) {
      after[other] = std::max(after[other], waits[other]);
      raise(after, seen_[other][waits[other] - 1]);
    }
  for (const Lane other : all_lanes) {
    if (!is_new(other)) continue;
    const bool implied = std::any_of(all_lanes.begin(), all_lanes.end(), [&](Lane third) {
      return third != other && is_new(third) && seen_[third][waits[third] - 1][other] >= waits[other];
    });
    if (!implied) kept.push_back({other, waits[other]});
  }
  after[lane] = sequence;
  own.push_back(after);
  return kept;
}

}  // namespace weft::plan
