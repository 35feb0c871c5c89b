// Cuts a contiguous run of a row-major array into boxes, because HDF5 selects boxes: a partial first row,
// whole rows, a partial last row, and so on inside the partial rows for more dimensions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/unit.hpp"

namespace weft::ckpt::detail {

struct Box {
  Shape start;
  Shape count;
  std::int64_t first = 0;     ///< linear index of its first element
  std::int64_t elements = 0;  ///< contiguous from `first`
};

/// Boxes that cover the linear elements [begin, end) of an array of this shape, in order; at most 2 * rank
/// - 1.
std::vector<Box> boxes_of_run(const Shape& shape, std::int64_t begin, std::int64_t end);

}  // namespace weft::ckpt::detail
