#include <algorithm>
#include <span>

#include "plan/fit.hpp"

namespace weft::plan::detail {
namespace {

/// A buffer that has its place.
struct Placed {
  std::int64_t offset, end;  // bytes
  std::int64_t first, last;  // places in the program during which it is held
};

/// The placed buffers, so that those held at a time are found without a look at all. Time is cut into blocks:
/// fine ones know the buffers that are held for a short time, coarse ones those held long.
class Timetable {
 public:
  explicit Timetable(std::int64_t places)
      : fine_(static_cast<std::size_t>(places / fine_block + 1)),
        coarse_(static_cast<std::size_t>(places / coarse_block + 1)) {}

  /// Counts what it moves, an eighth of a look each.
  void add(const Placed& placed, std::int64_t& looked_at) {
    const bool is_short = placed.last - placed.first < long_from;
    for (Block& block :
         is_short ? blocks(fine_, fine_block, placed) : blocks(coarse_, coarse_block, placed)) {
      const auto at = std::upper_bound(block.begin(), block.end(), placed.offset,
                                       [](std::int64_t o, const Placed& p) { return o < p.offset; });
      looked_at += 1 + (block.end() - at) / 8;
      block.insert(at, placed);
    }
  }

  /// The lowest offset for `bytes` that are held from `first` to `last`. Counts what it looks at.
  std::int64_t lowest(std::int64_t bytes, std::int64_t first, std::int64_t last, std::int64_t& looked_at) {
    const Placed query{0, 0, first, last};
    heads_.clear();
    for (const auto& part : {blocks(coarse_, coarse_block, query), blocks(fine_, fine_block, query)})
      for (const Block& block : part)
        if (!block.empty()) heads_.push_back({block.data(), block.data() + block.size()});
    if (heads_.size() > most_merged) sort_into_one(first, last, looked_at);
    std::int64_t offset = 0;
    while (!heads_.empty()) {  // by offset; one that stands in several blocks is met again without harm
      auto head = std::min_element(heads_.begin(), heads_.end(),
                                   [](const Head& a, const Head& b) { return a.at->offset < b.at->offset; });
      const Placed& other = *head->at;
      ++looked_at;
      if (first <= other.last && other.first <= last) {
        if (other.offset >= offset + bytes) break;
        offset = std::max(offset, other.end);
      }
      if (++head->at == head->end) {
        *head = heads_.back();
        heads_.pop_back();
      }
    }
    return offset;
  }

 private:
  static constexpr std::int64_t fine_block = 64, coarse_block = 1024, long_from = 512;
  static constexpr std::size_t most_merged = 8;

  using Block = std::vector<Placed>;  // by offset
  struct Head {
    const Placed *at, *end;
  };

  static std::span<Block> blocks(std::vector<Block>& all, std::int64_t width, const Placed& held) {
    const auto begin = static_cast<std::size_t>(held.first / width);
    return std::span(all).subspan(begin, static_cast<std::size_t>(held.last / width) + 1 - begin);
  }

  void sort_into_one(std::int64_t first, std::int64_t last, std::int64_t& looked_at) {
    merged_.clear();
    for (const Head& head : heads_) {
      looked_at += head.end - head.at;
      for (const Placed* p = head.at; p != head.end; ++p)
        if (first <= p->last && p->first <= last) merged_.push_back(*p);
    }
    std::sort(merged_.begin(), merged_.end(),
              [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
    heads_.clear();
    if (!merged_.empty()) heads_.push_back({merged_.data(), merged_.data() + merged_.size()});
  }

  std::vector<Block> fine_, coarse_;
  std::vector<Head> heads_;
  Block merged_;
};

}  // namespace

std::optional<std::int64_t> greedy(std::vector<Buffer>& buffers, const std::vector<std::size_t>& order,
                                   std::int64_t work) {
  std::int64_t places = 0, size = 0, looked_at = 0;
  for (const Buffer& b : buffers) places = std::max(places, b.last);
  Timetable table(places);
  for (const std::size_t i : order) {
    Buffer& b = buffers[i];
    b.offset = table.lowest(b.bytes, b.first, b.last, looked_at);
    if (looked_at > work) return std::nullopt;
    table.add({b.offset, b.offset + b.bytes, b.first, b.last}, looked_at);
    size = std::max(size, b.offset + b.bytes);
  }
  return size;
}

}  // namespace weft::plan::detail
