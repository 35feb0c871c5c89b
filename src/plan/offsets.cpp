#include "plan/offsets.hpp"

#include <algorithm>
#include <map>
#include <numeric>

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

/// Best fit over the free gaps, buffer by buffer in program order: n log n.
std::int64_t sweep(std::vector<Buffer>& buffers) {
  Order by_first(buffers.size()), by_last(buffers.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::iota(by_last.begin(), by_last.end(), 0);
  std::stable_sort(by_first.begin(), by_first.end(),
                   [&](auto a, auto b) { return buffers[a].first < buffers[b].first; });
  std::stable_sort(by_last.begin(), by_last.end(),
                   [&](auto a, auto b) { return buffers[a].last < buffers[b].last; });
  std::map<std::int64_t, std::int64_t> gaps;  // offset -> bytes
  std::int64_t size = 0;
  const auto release = [&](std::int64_t offset, std::int64_t bytes) {
    auto next = gaps.lower_bound(offset);
    if (next != gaps.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = gaps.erase(next);
    }
    if (next != gaps.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
      std::prev(next)->second += bytes;
    } else {
      gaps.emplace(offset, bytes);
    }
  };
  std::size_t ended = 0;
  for (const std::size_t i : by_first) {
    Buffer& buffer = buffers[i];
    for (; ended < by_last.size() && buffers[by_last[ended]].last < buffer.first; ++ended)
      release(buffers[by_last[ended]].offset, buffers[by_last[ended]].bytes);
    auto best = gaps.end();
    for (auto gap = gaps.begin(); gap != gaps.end(); ++gap)
      if (gap->second >= buffer.bytes && (best == gaps.end() || gap->second < best->second)) best = gap;
    if (best == gaps.end()) {  // grow; start in the gap that touches the end, if there is one
      buffer.offset = size;
      if (!gaps.empty() && std::prev(gaps.end())->first + std::prev(gaps.end())->second == size) {
        buffer.offset = std::prev(gaps.end())->first;
        gaps.erase(std::prev(gaps.end()));
      }
      size = buffer.offset + buffer.bytes;
    } else {
      buffer.offset = best->first;
      const std::int64_t left = best->second - buffer.bytes;
      gaps.erase(best);
      if (left > 0) gaps.emplace(buffer.offset + buffer.bytes, left);
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
