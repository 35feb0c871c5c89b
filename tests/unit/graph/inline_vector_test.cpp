#include "base/inline_vector.hpp"

#include <gtest/gtest.h>

#include <list>
#include <stdexcept>

namespace weft {
namespace {

using Three = InlineVector<int, 3>;

TEST(InlineVector, IsAVectorOfAFew) {
  Three v{1, 2};
  EXPECT_EQ(v.size(), 2U);
  v.insert(v.begin(), 7);
  EXPECT_EQ(v, (Three{7, 1, 2}));
  v.back() = 5;
  EXPECT_EQ(v.at(2), 5);
  EXPECT_EQ(Three(2, 9), (Three{9, 9}));
  const std::list<long> others{3, 4};
  EXPECT_EQ(Three(others.begin(), others.end()), (Three{3, 4}));
  EXPECT_TRUE(Three{}.empty());
}

TEST(InlineVector, OnesOfOtherSizesDiffer) {
  EXPECT_NE((Three{1, 0}), (Three{1}));
  EXPECT_NE((Three{1}), (Three{2}));
}

TEST(InlineVector, HoldsNoMore) {
  Three v{1, 2, 3};
  EXPECT_THROW(v.push_back(4), std::length_error);
  EXPECT_THROW(v.insert(v.begin(), 4), std::length_error);
  EXPECT_EQ(v, (Three{1, 2, 3}));
  EXPECT_THROW(Three(4, 0), std::length_error);
  EXPECT_THROW(v.at(3), std::out_of_range);
}

}  // namespace
}  // namespace weft
