#include "plan/hazards.hpp"

#include <algorithm>

namespace weft::plan {
namespace {

void raise(Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

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
  const auto l = static_cast<std::size_t>(lane);
  const auto last = split(end);
  auto it = split(begin);
  if (kind == Access::write) {  // afterwards all of its bytes are alike: one stretch
    for (; it != last; it = stretches_.erase(it)) {
      raise(waits, it->second.written);
      raise(waits, it->second.read);
    }
    Stretch written{end, {}, {}};
    written.written[l] = sequence;
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
    stretch.read[l] = std::max(stretch.read[l], sequence);
    at = stretch.end;
  }
}

std::vector<Wait> WaitReducer::reduce(Lane lane, std::uint64_t sequence, const Clock& waits) {
  std::vector<Clock>& own = seen_[static_cast<std::size_t>(lane)];
  Clock known = own.empty() ? Clock{} : own.back();
  std::vector<Wait> kept;
  // The latest wait for another lane may imply the others: look at the lanes in order, and drop what is known
  // by then.
  Clock after = known;
  for (std::size_t l = 0; l < lane_count; ++l)
    if (l != static_cast<std::size_t>(lane) && waits[l] > known[l]) {
      after[l] = std::max(after[l], waits[l]);
      raise(after, seen_[l][waits[l] - 1]);
    }
  for (std::size_t l = 0; l < lane_count; ++l) {
    if (l == static_cast<std::size_t>(lane) || waits[l] <= known[l]) continue;
    bool implied = false;
    for (std::size_t m = 0; m < lane_count; ++m)
      if (m != l && m != static_cast<std::size_t>(lane) && waits[m] > known[m] &&
          seen_[m][waits[m] - 1][l] >= waits[l])
        implied = true;
    if (!implied) kept.push_back({static_cast<Lane>(l), waits[l]});
  }
  after[static_cast<std::size_t>(lane)] = sequence;
  own.push_back(after);
  return kept;
}

}  // namespace weft::plan
