#include "ckpt/boxes.hpp"

#include <gtest/gtest.h>

namespace weft::ckpt::detail {
namespace {

/// The linear indices of the box, in row-major order.
std::vector<std::int64_t> indices(const Box& box, const Shape& shape) {
  std::vector<std::int64_t> result = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const auto base : result) {
      for (std::int64_t i = 0; i < box.count[d]; ++i) next.push_back(base * shape[d] + box.start[d] + i);
    }
    result = std::move(next);
  }
  return result;
}

TEST(Boxes, CoverEveryRunInOrder) {
  for (const Shape& shape :
       {Shape{11}, Shape{1}, Shape{5, 7}, Shape{1, 9}, Shape{4, 1}, Shape{3, 4, 5}, Shape{2, 3, 2, 3}}) {
    const std::int64_t n = element_count(shape);
    for (std::int64_t begin = 0; begin <= n; ++begin) {
      for (std::int64_t end = begin; end <= n; ++end) {
        const auto boxes = boxes_of_run(shape, begin, end);
        EXPECT_LE(boxes.size(), 2 * shape.size() - 1);
        std::int64_t at = begin;
        for (const Box& box : boxes) {
          ASSERT_EQ(box.first, at);
          for (const auto index : indices(box, shape)) ASSERT_EQ(index, at++);
          ASSERT_EQ(box.first + box.elements, at);
        }
        ASSERT_EQ(at, end) << "run [" << begin << ", " << end << ")";
      }
    }
  }
}

}  // namespace
}  // namespace weft::ckpt::detail
