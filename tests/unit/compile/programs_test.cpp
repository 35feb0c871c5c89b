// Tests what a deck becomes before it is planned.
#include "compile/programs.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/small_deck.hpp"

namespace weft::compile {
namespace {

/// How many units are in Float8 counts in estimates of memory and time.
TEST(Programs, AUnitThatTwoPatternsNameIsInFloat8Once) {
  const Deck deck = test::small_deck({"model.layers=4", "precision.params=bf16",
                                      R"(precision.float8=["layers.0-2", "layers.2.ffn", "layers.*"])"});
  EXPECT_EQ(spec_of(deck).float8,
            (std::vector<std::string>{"layers.0.attn", "layers.0.ffn", "layers.1.attn", "layers.1.ffn",
                                      "layers.2.attn", "layers.2.ffn"}));
}

}  // namespace
}  // namespace weft::compile
