// Lays out buffers in program order (declared in fit.hpp).
#include <algorithm>
#include <limits>
#include <numeric>

#include "plan/fit.hpp"

namespace weft::plan::detail {
namespace {

/// The free stretches of an arena without end, sorted by offset. There are few at a time, so a vector will
/// do.
class Gaps {
 public:
  std::int64_t size() const { return size_; }  ///< the end of the highest place taken so far

  /// Takes bytes at the low end of the first gap that is large enough.
  std::int64_t take_lowest(std::int64_t bytes) {
    std::size_t i = 0;
    while (gaps_[i].end - gaps_[i].begin < bytes) ++i;
    return take(i, gaps_[i].begin, bytes);
  }
  /// Takes bytes below `cap`, at the high end of the last gap that is large enough; from the lowest gap if
  /// there is none.
  std::int64_t take_highest(std::int64_t bytes, std::int64_t cap) {
    for (std::size_t i = gaps_.size(); i-- > 0;)
      if (const std::int64_t end = std::min(gaps_[i].end, cap); end - gaps_[i].begin >= bytes)
        return take(i, end - bytes, bytes);
    return take_lowest(bytes);
  }

  enum class End : std::uint8_t { low, high };
  /// Takes bytes at an end of the smallest gap below `cap` that is large enough; from the lowest gap if there
  /// is none.
  std::int64_t take_tightest(std::int64_t bytes, std::int64_t cap, End at) {
    std::size_t best = gaps_.size();
    std::int64_t best_room = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < gaps_.size(); ++i) {
      const std::int64_t room = std::min(gaps_[i].end, cap) - gaps_[i].begin;
      if (room < bytes || room > best_room || (room == best_room && at == End::low)) continue;
      best = i;
      best_room = room;
    }
    if (best == gaps_.size()) return take_lowest(bytes);
    return take(best, gaps_[best].begin + (at == End::low ? 0 : best_room - bytes), bytes);
  }

  void give(std::int64_t offset, std::int64_t bytes) {
    const auto next = std::lower_bound(gaps_.begin(), gaps_.end(), offset,
                                       [](const Gap& gap, std::int64_t o) { return gap.begin < o; });
    const bool joins_next = next != gaps_.end() && next->begin == offset + bytes;
    const bool joins_last = next != gaps_.begin() && std::prev(next)->end == offset;
    if (joins_next && joins_last) {
      std::prev(next)->end = next->end;
      gaps_.erase(next);
    } else if (joins_next) {
      next->begin = offset;
    } else if (joins_last) {
      std::prev(next)->end = offset + bytes;
    } else {
      gaps_.insert(next, {offset, offset + bytes});
    }
  }

 private:
  struct Gap {
    std::int64_t begin, end;
  };

  std::int64_t take(std::size_t i, std::int64_t offset, std::int64_t bytes) {
    const Gap gap = gaps_[i];
    const Gap before{gap.begin, offset}, after{offset + bytes, gap.end};
    const auto at = gaps_.begin() + static_cast<std::ptrdiff_t>(i);
    if (before.begin == before.end && after.begin == after.end) {
      gaps_.erase(at);
    } else if (before.begin == before.end) {
      *at = after;
    } else {
      *at = before;
      if (after.begin < after.end) gaps_.insert(at + 1, after);
    }
    size_ = std::max(size_, offset + bytes);
    return offset;
  }

  std::vector<Gap> gaps_{{0, std::numeric_limits<std::int64_t>::max() / 2}};
  std::int64_t size_ = 0;
};

std::int64_t take(Gaps& gaps, const Buffer& buffer, const SweepRule& rule) {
  const bool high = buffer.last - buffer.first < rule.short_below;
  if (rule.gap == SweepRule::Gap::tightest)
    return gaps.take_tightest(buffer.bytes, rule.cap, high ? Gaps::End::high : Gaps::End::low);
  return high ? gaps.take_highest(buffer.bytes, rule.cap) : gaps.take_lowest(buffer.bytes);
}

}  // namespace

std::int64_t sweep(std::vector<Buffer>& buffers, const SweepRule& rule) {
  std::vector<std::size_t> by_first(buffers.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::vector<std::size_t> by_last = by_first;
  std::stable_sort(by_first.begin(), by_first.end(), [&](auto a, auto b) {
    return std::pair(buffers[a].first, -buffers[a].bytes) < std::pair(buffers[b].first, -buffers[b].bytes);
  });
  std::stable_sort(by_last.begin(), by_last.end(),
                   [&](auto a, auto b) { return buffers[a].last < buffers[b].last; });
  Gaps gaps;
  std::size_t ended = 0;
  for (const std::size_t i : by_first) {
    for (; buffers[by_last[ended]].last < buffers[i].first; ++ended)
      gaps.give(buffers[by_last[ended]].offset, buffers[by_last[ended]].bytes);
    buffers[i].offset = take(gaps, buffers[i], rule);
  }
  return gaps.size();
}

}  // namespace weft::plan::detail
