// Lays out buffers one after the other, each as low as it can be (declared in fit.hpp).
#include <algorithm>
#include <bit>

#include "plan/fit.hpp"

namespace weft::plan::detail {

/// The bytes of the arena that are taken, as stretches sorted by offset that do not touch each other.
class Taken {
 public:
  void add(std::int64_t begin, std::int64_t end) {
    const auto from = std::lower_bound(stretches_.begin(), stretches_.end(), begin, ends_before);
    auto to = from;
    for (; to != stretches_.end() && to->begin <= end; ++to) {
      begin = std::min(begin, to->begin);
      end = std::max(end, to->end);
    }
    if (from == to) {
      stretches_.insert(from, {begin, end});
    } else {
      *from = {begin, end};
      stretches_.erase(from + 1, to);
    }
  }

  void clear() { stretches_.clear(); }

  struct Stretch {
    std::int64_t begin, end;
  };
  const std::vector<Stretch>& stretches() const { return stretches_; }

 private:
  static bool ends_before(const Stretch& stretch, std::int64_t offset) { return stretch.end < offset; }

  std::vector<Stretch> stretches_;
};

/// Which bytes are taken at which time, in a binary tree over the program's places. The time for which a
/// buffer is held is the sum of a few nodes. Two such times overlap where a node of one is also a node of the
/// other, or stands above one. A node keeps a single set of bytes for its many buffers: they are packed
/// tightly, so the set has few stretches.
class Timetable {
 public:
  explicit Timetable(std::int64_t places)
      : leaves_(std::bit_ceil(static_cast<std::size_t>(places))), nodes_(2 * leaves_) {}

  /// Forgets all buffers, and keeps the memory of its sets.
  void clear() {
    for (Node& node : nodes_) {
      node.throughout.clear();
      node.at_times.clear();
    }
  }

  void add(const Buffer& b) {
    for_each_node(b, [&](std::size_t node) { nodes_[node].throughout.add(b.offset, b.offset + b.bytes); });
    for_each_above(b, [&](std::size_t node) { nodes_[node].at_times.add(b.offset, b.offset + b.bytes); });
  }

  /// The lowest offset at which `b`'s bytes are free for as long as it is held.
  std::int64_t lowest(const Buffer& b) {
    in_the_way_.clear();
    for_each_node(b, [&](std::size_t node) {
      meet(nodes_[node].throughout);
      meet(nodes_[node].at_times);
    });
    for_each_above(b, [&](std::size_t node) { meet(nodes_[node].throughout); });
    std::int64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = 0; i < in_the_way_.size();) {
        Ahead& ahead = in_the_way_[i];
        while (ahead.next != ahead.end && ahead.next->begin < offset + b.bytes) {
          moved |= ahead.next->end > offset;
          offset = std::max(offset, ahead.next++->end);
        }
        if (ahead.next == ahead.end) {
          ahead = in_the_way_.back();
          in_the_way_.pop_back();
        } else {
          ++i;
        }
      }
    }
    return offset;
  }

 private:
  struct Node {
    Taken throughout;  ///< bytes of buffers that are held all of the node's time
    Taken at_times;    ///< bytes of buffers that are held in a part of it, a node below this one
  };
  /// The stretches of one set that may still be in the way.
  struct Ahead {
    const Taken::Stretch *next, *end;
  };

  void meet(const Taken& taken) {
    const auto& all = taken.stretches();
    if (!all.empty()) in_the_way_.push_back({all.data(), all.data() + all.size()});
  }

  /// Calls visit(node) for the largest nodes that together cover the time for which `b` is held.
  template <class Visit>
  void for_each_node(const Buffer& b, Visit&& visit) const {
    std::size_t begin = leaves_ + static_cast<std::size_t>(b.first);
    std::size_t end = leaves_ + static_cast<std::size_t>(b.last) + 1;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) visit(begin++);
      if (end % 2 == 1) visit(--end);
    }
  }

  /// Calls visit(node) once for each node that stands above one of those that for_each_node() visits.
  template <class Visit>
  void for_each_above(const Buffer& b, Visit&& visit) const {
    const std::size_t begin = leaves_ + static_cast<std::size_t>(b.first);
    const std::size_t last = leaves_ + static_cast<std::size_t>(b.last);
    // These are the nodes that reach beyond the first or the last place.
    for (int level = 1; (begin >> level) > 0; ++level) {
      const std::size_t left = begin >> level, right = last >> level;
      const bool left_whole = (left << level) == begin, right_whole = ((right + 1) << level) == last + 1;
      if (left == right) {
        if (!(left_whole && right_whole)) visit(left);
        continue;
      }
      if (!left_whole) visit(left);
      if (!right_whole) visit(right);
    }
  }

  std::size_t leaves_;
  std::vector<Node> nodes_;  ///< the root is 1, the nodes below n are 2n and 2n + 1
  std::vector<Ahead> in_the_way_;
};

Greedy::Greedy(const std::vector<Buffer>& buffers) {
  std::int64_t places = 0;
  for (const Buffer& b : buffers) places = std::max(places, b.last + 1);
  table_ = std::make_unique<Timetable>(places);
}

Greedy::~Greedy() = default;

Greedy::Placed Greedy::place(std::vector<Buffer>& buffers, const std::vector<std::size_t>& order,
                             std::int64_t limit) {
  std::int64_t size = 0;
  table_->clear();
  for (const std::size_t i : order) {
    Buffer& b = buffers[i];
    b.offset = table_->lowest(b);
    size = std::max(size, b.offset + b.bytes);
    if (size >= limit) return {size, i};
    table_->add(b);
  }
  return {size, std::nullopt};
}

}  // namespace weft::plan::detail
