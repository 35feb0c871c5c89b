#include "train/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace weft::train {
namespace {

using Ids = std::vector<std::int32_t>;

/// The tokens and positions of a sequence of six with this context, and 9 as the end of a document.
std::pair<Ids, Ids> window(const Ids& context, std::optional<std::int32_t> end_of_document) {
  Ids tokens(6, -1), positions(6, -1);
  EXPECT_EQ(fill_window(context, end_of_document, tokens, positions),
            std::min<std::size_t>(6, context.size()));
  return {tokens, positions};
}

/// Attention takes a position 0 for the border of a document, so the first token of a prompt has it, behind
/// the end of the document before.
TEST(FillWindow, NumbersTokensAsTrainingDid) {
  EXPECT_EQ(window({9, 5, 6}, std::nullopt), std::pair(Ids({9, 5, 6, 0, 0, 0}), Ids({0, 1, 2, 3, 4, 5})));
  EXPECT_EQ(window({9, 5, 6}, 9), std::pair(Ids({9, 5, 6, 0, 0, 0}), Ids({0, 0, 1, 2, 3, 4})));
  EXPECT_EQ(window({9, 1, 2, 3, 4, 5, 6, 7}, 9), std::pair(Ids({2, 3, 4, 5, 6, 7}), Ids({0, 1, 2, 3, 4, 5})));
  EXPECT_EQ(window({1, 2, 9, 3}, 9), std::pair(Ids({1, 2, 9, 3, 0, 0}), Ids({0, 1, 2, 0, 1, 2})));
}

}  // namespace
}  // namespace weft::train
