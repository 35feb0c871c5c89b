// Tests the decks in inputs/.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "unit/deck/example.hpp"

namespace weft::test {
namespace {

TEST(Inputs, AreTheOnesTheTestsKnow) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/inputs"))
    if (entry.path().extension() == ".toml") found.push_back(entry.path().stem().string());
  auto known = input_decks;
  std::sort(found.begin(), found.end());
  std::sort(known.begin(), known.end());
  EXPECT_EQ(found, known);
}

TEST(Inputs, ParseAndPrintBack) {
  for (const auto& name : input_decks) {
    const auto deck = parse_deck(input_path(name));
    EXPECT_EQ(deck.run.name, name);
    EXPECT_TRUE(parse_deck_text(print_deck(deck), name) == deck) << name;
  }
}

TEST(Inputs, ShapesOfLlama3) {
  const auto shape = [](const char* name) {
    const auto m = parse_deck(input_path(name)).model;
    return std::vector<std::int64_t>{m.dim, m.layers, m.heads, m.kv_heads, m.ffn, m.vocab};
  };
  EXPECT_EQ(shape("llama3_8b"), (std::vector<std::int64_t>{4096, 32, 32, 8, 14336, 128256}));
  EXPECT_EQ(shape("llama3_70b"), (std::vector<std::int64_t>{8192, 80, 64, 8, 28672, 128256}));
  EXPECT_EQ(shape("llama3_405b"), (std::vector<std::int64_t>{16384, 126, 128, 8, 53248, 128256}));
  EXPECT_EQ(shape("bench_33m"), (std::vector<std::int64_t>{512, 8, 8, 4, 1536, 8192}));
  EXPECT_EQ(parse_deck(input_path("llama3_405b")).model.rope_scaling, (RopeScalingDeck{8, 1, 4, 8192}));
  EXPECT_EQ(parse_deck(input_path("llama3_8b")).model.rope_scaling, RopeScalingDeck{});
}

TEST(Inputs, DivideOverTheirRanks) {
  EXPECT_EQ(accumulation(parse_deck(input_path("quickstart")), 2), 1);
  EXPECT_EQ(accumulation(parse_deck(input_path("bench_33m")), 2), 1);
  EXPECT_EQ(accumulation(parse_deck(input_path("llama3_8b")), 8), 64);
  EXPECT_EQ(accumulation(parse_deck(input_path("llama3_70b")), 256), 4);
  EXPECT_EQ(accumulation(parse_deck(input_path("llama3_405b")), 512), 4);
}

}  // namespace
}  // namespace weft::test
