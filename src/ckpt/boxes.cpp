#include "ckpt/boxes.hpp"

#include <algorithm>

namespace weft::ckpt::detail {

namespace {

/// Adds boxes that cover [begin, end) inside the sub-array at `start`, whose dimensions from `axis` on are
/// free.
void cut(const Shape& shape, std::size_t axis, std::int64_t begin, std::int64_t end, std::int64_t base,
         Shape start, std::vector<Box>& out) {
  if (begin >= end) return;
  std::int64_t row = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d) row *= shape[d];

  const auto partial = [&](std::int64_t index, std::int64_t from, std::int64_t to) {
    Shape inside = start;
    inside[axis] = index;
    cut(shape, axis + 1, from, to, base + index * row, std::move(inside), out);
  };
  std::int64_t first = begin / row;
  const std::int64_t last = end / row;
  if (begin % row != 0) {
    partial(first, begin % row, std::min(row, end - first * row));
    ++first;
  }
  if (last > first) {
    Box box{start, Shape(shape.size(), 1), base + first * row, (last - first) * row};
    box.start[axis] = first;
    box.count[axis] = last - first;
    for (std::size_t d = axis + 1; d < shape.size(); ++d) box.count[d] = shape[d];
    out.push_back(std::move(box));
  }
  if (end % row != 0 && last >= first) partial(last, 0, end % row);
}

}  // namespace

std::vector<Box> boxes_of_run(const Shape& shape, std::int64_t begin, std::int64_t end) {
  std::vector<Box> boxes;
  cut(shape, 0, begin, end, 0, Shape(shape.size(), 0), boxes);
  return boxes;
}

}  // namespace weft::ckpt::detail
