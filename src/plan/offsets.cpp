#include "plan/offsets.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace weft::plan {
namespace {

using Order = std::vector<std::size_t>;

/// Greedy by size compares every pair of buffers; beyond this many, only the sweep in program order is tried.
constexpr std::size_t greedy_limit = 10000;

/// Puts each buffer, in the given order, into the lowest gap between the buffers already placed that are held
/// at the same time.
std::int64_t place_in_order(std::vector<Buffer>& buffers, const Order& order) {
  Order placed;  // by offset
  std::int64_t size = 0;
  for (const std::size_t i : order) {
    Buffer& buffer = buffers[i];
    std::int64_t offset = 0;
    for (const std::size_t j : placed) {
      const Buffer& other = buffers[j];
      if (other.last < buffer.first || buffer.last < other.first) continue;
      if (other.offset >= offset + buffer.bytes) break;
      offset = std::max(offset, other.offset + other.bytes);
    }
    buffer.offset = offset;
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](std::int64_t o, std::size_t j) { return o < buffers[j].offset; });
    placed.insert(at, i);
    size = std::max(size, offset + buffer.bytes);
  }
  return size;
}

/// Places the buffers by falling key, then a few times more with those first that stood at the arena's end.
/// Keeps the layout when it is smaller than `best`; returns the smaller size.
template <class Key>
std::int64_t improve(std::vector<Buffer>& buffers, Key&& key, std::int64_t best) {
  constexpr int attempts = 12;
  std::vector<Buffer> tried = buffers;
  Order order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return key(buffers[a]) > key(buffers[b]); });
  for (int i = 0; i < attempts; ++i) {
    const std::int64_t size = place_in_order(tried, order);
    if (size < best) {
      buffers = tried;
      best = size;
    }
    std::stable_partition(order.begin(), order.end(),
                          [&](auto b) { return tried[b].offset + tried[b].bytes == size; });
  }
  return best;
}

/// The free stretches below an arena's end.
class Gaps {
 public:
  /// Takes `bytes` out of the smallest gap that holds them, the lowest of equal ones.
  std::optional<std::int64_t> take(std::int64_t bytes) {
    const auto best = by_size_.lower_bound({bytes, 0});
    if (best == by_size_.end()) return std::nullopt;
    const auto [size, offset] = *best;
    erase(by_offset_.find(offset));
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }
  /// Takes the gap that ends at `end`, if there is one; returns where it began, or `end`.
  std::int64_t take_last(std::int64_t end) {
    if (by_offset_.empty()) return end;
    const auto last = std::prev(by_offset_.end());
    if (last->first + last->second != end) return end;
    const std::int64_t begin = last->first;
    erase(last);
    return begin;
  }
  void give(std::int64_t offset, std::int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = erase(next);
    }
    if (next != by_offset_.begin()) {
      if (const auto before = std::prev(next); before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        erase(before);
      }
    }
    insert(offset, bytes);
  }

 private:
  using ByOffset = std::map<std::int64_t, std::int64_t>;  // offset -> bytes

  ByOffset::iterator erase(ByOffset::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    return by_offset_.erase(gap);
  }
  void insert(std::int64_t offset, std::int64_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }

  ByOffset by_offset_;
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // {bytes, offset}
};

/// Best fit over the free gaps, buffer by buffer in program order: n log n.
std::int64_t sweep(std::vector<Buffer>& buffers) {
  Order by_first(buffers.size()), by_last(buffers.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::iota(by_last.begin(), by_last.end(), 0);
  std::stable_sort(by_first.begin(), by_first.end(),
                   [&](auto a, auto b) { return buffers[a].first < buffers[b].first; });
  std::stable_sort(by_last.begin(), by_last.end(),
                   [&](auto a, auto b) { return buffers[a].last < buffers[b].last; });
  Gaps gaps;
  std::int64_t size = 0;
  std::size_t ended = 0;
  for (const std::size_t i : by_first) {
    Buffer& buffer = buffers[i];
    for (; ended < by_last.size() && buffers[by_last[ended]].last < buffer.first; ++ended)
      gaps.give(buffers[by_last[ended]].offset, buffers[by_last[ended]].bytes);
    if (const auto gap = gaps.take(buffer.bytes)) {
      buffer.offset = *gap;
    } else {  // grow; start in the gap that touches the end, if there is one
      buffer.offset = gaps.take_last(size);
      size = buffer.offset + buffer.bytes;
    }
  }
  return size;
}

/// Calls visit(place, live bytes) at every place where a buffer begins.
template <class Visit>
void for_each_live(const std::vector<Buffer>& buffers, Visit&& visit) {
  std::map<std::int64_t, std::int64_t> change;
  for (const Buffer& b : buffers) {
    change[b.first] += b.bytes;
    change[b.last + 1] -= b.bytes;
  }
  std::int64_t live = 0;
  for (const auto& [place, bytes] : change) visit(place, live += bytes);
}

}  // namespace

std::int64_t assign_offsets(std::vector<Buffer>& buffers, MemoryReuse reuse) {
  if (reuse == MemoryReuse::off) {
    std::int64_t size = 0;
    for (Buffer& buffer : buffers) {
      buffer.offset = size;
      size += buffer.bytes;
    }
    return size;
  }
  const std::int64_t swept = sweep(buffers);
  if (buffers.size() > greedy_limit) return swept;
  const auto held = [](const Buffer& b) { return static_cast<double>(b.last - b.first + 1); };
  const auto bytes = [](const Buffer& b) { return static_cast<double>(b.bytes); };
  std::int64_t size = improve(buffers, bytes, swept);
  size = improve(buffers, held, size);
  return improve(
      buffers, [&](const Buffer& b) { return held(b) * bytes(b); }, size);
}

std::int64_t live_peak(const std::vector<Buffer>& buffers) {
  std::int64_t peak = 0;
  for_each_live(buffers, [&](std::int64_t, std::int64_t live) { peak = std::max(peak, live); });
  return peak;
}

std::int64_t live_peak_place(const std::vector<Buffer>& buffers) {
  std::int64_t peak = -1, where = 0;
  for_each_live(buffers, [&](std::int64_t place, std::int64_t live) {
    if (live <= peak) return;
    peak = live;
    where = place;
  });
  return where;
}

}  // namespace weft::plan
