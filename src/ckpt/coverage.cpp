#include "ckpt/coverage.hpp"

#include <algorithm>
#include <iterator>

#include "base/check.hpp"

namespace weft::ckpt::detail {

namespace {

[[noreturn]] void fail(Role role, const Unit& unit, std::int64_t near) {
  throw Error(ExitCode::bad_checkpoint,
              fmt::format("the ranks' slices do not cover {} of unit {} once (gap or overlap near element {} "
                          "of {}); Weft writes no such checkpoint: please report it",
                          name_of(role), unit.path, near, unit.elements));
}

}  // namespace

bool Intervals::add(std::int64_t begin, std::int64_t end) {
  auto next = std::lower_bound(joined_.begin(), joined_.end(), std::pair(begin, end));
  if (next != joined_.end() && next->first < end) return false;
  const bool behind = next != joined_.begin() && std::prev(next)->second >= begin;
  if (behind && std::prev(next)->second > begin) return false;
  const bool before = next != joined_.end() && next->first == end;
  if (behind && before) {
    std::prev(next)->second = next->second;
    joined_.erase(next);
  } else if (behind) {
    std::prev(next)->second = end;
  } else if (before) {
    next->first = begin;
  } else {
    joined_.insert(next, {begin, end});
  }
  return true;
}

std::int64_t Intervals::first_missing(std::int64_t begin, std::int64_t end) const {
  const auto next = std::upper_bound(joined_.begin(), joined_.end(), begin,
                                     [](std::int64_t x, const auto& interval) { return x < interval.first; });
  if (next == joined_.begin()) return begin;
  return std::clamp(std::prev(next)->second, begin, end);
}

Coverage::Coverage(const std::vector<Unit>& units)
    : units_(units), seen_(std::size(all_roles) * units.size()) {}

void Coverage::add(const Shard& shard) {
  for (const ShardSlice& s : shard.slices) {
    const auto u = static_cast<std::size_t>(s.unit);
    const Unit& unit = units_.at(u);
    Intervals& seen = seen_[static_cast<std::size_t>(s.role) * units_.size() + u];
    if (s.begin < 0 || s.begin + s.count > unit.elements || !seen.add(s.begin, s.begin + s.count))
      fail(s.role, unit, s.begin);
  }
}

void Coverage::check() const {
  for (const Role role : all_roles) {
    const auto* seen = seen_.data() + static_cast<std::size_t>(role) * units_.size();
    if (std::all_of(seen, seen + units_.size(), [](const Intervals& i) { return i.empty(); })) continue;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const std::int64_t missing = seen[u].first_missing(0, units_[u].elements);
      if (missing != units_[u].elements) fail(role, units_[u], missing);
    }
  }
}

}  // namespace weft::ckpt::detail
