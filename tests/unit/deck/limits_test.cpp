// Tests that what kernels and tables cannot hold is refused with the deck, beginning with the value behind
// the last that works.
#include "base/limits.hpp"

#include <gtest/gtest.h>

#include <fmt/core.h>

#include "unit/deck/example.hpp"

namespace weft::test {
namespace {

/// Settings of a deck that break one limit, and the setting in its message that works.
struct TooLarge {
  const char* name;
  std::vector<std::string> sets;
  const char* message;
  const char* instead;
};

void PrintTo(const TooLarge& c, std::ostream* out) {
  *out << c.name;
}

class Limit : public testing::TestWithParam<TooLarge> {};

TEST_P(Limit, IsAMistakeOfTheDeckWithTheNearestValueThatWorks) {
  EXPECT_EQ(mistake(std::string(example), GetParam().sets), GetParam().message);
  auto mended = GetParam().sets;
  mended.emplace_back(GetParam().instead);
  EXPECT_EQ(mistake(std::string(example), mended), "no error");
}

const TooLarge cases[] = {
    {"head_width",
     {"model.dim=2048"},
     "d.toml:6: model.heads: 4 heads of model.dim = 2048 are 512 wide (attention's kernels take at most "
     "256); did you mean 8?",
     "model.heads=8"},
    {"tokens",
     {"data.seq=1048577", "data.batch=2048", "data.global_batch=2048", "model.heads=1", "model.layers=1"},
     "--set: data.batch: 2048 sequences of data.seq = 1048577 are 2147485696 tokens (kernels number at most "
     "2147483647); use at most 2047",
     "data.batch=1024"},
    {"attention_blocks",
     {"data.seq=1048576", "data.batch=2047", "data.global_batch=2047", "model.dim=4096", "model.heads=32",
      "model.layers=1"},
     "--set: data.batch: 2047 sequences of data.seq = 1048576 are 4292870144 blocks of 16 queries (one "
     "attention takes at most 2147483647); use at most 1023",
     "data.batch=89"},
    {"bytes",
     {"data.seq=1048576", "data.batch=1024", "data.global_batch=1024", "model.ffn=16384", "model.layers=64"},
     "--set: data.batch: 1024 sequences of data.seq = 1048576 are up to 2.9e+17 bytes (a plan counts at "
     "most 4.5e+15); use at most 15",
     "data.batch=8"},
    {"attention_unit",
     {"model.dim=1048576", "model.heads=4096"},
     "--set: model.dim: 1048576 gives a block's attention 4398047559680 parameters (their gradient's norm is "
     "summed over at most 274877906944); use at most 253952",
     "model.dim=253952"},
    {"ffn_unit",
     {"model.ffn=16777216", "model.dim=8192", "model.heads=64"},
     "--set: model.ffn: 16777216 gives a block's feed-forward 412316868608 parameters (their gradient's norm "
     "is summed over at most 274877906944); use at most 11184810",
     "model.ffn=11184810"},
    {"embedding_unit",
     {"model.vocab=1000000000", "model.dim=512"},
     "--set: model.vocab: 1000000000 gives an embedding 512000000512 parameters (their gradient's norm is "
     "summed over at most 274877906944); use at most 536870911",
     "model.vocab=536870911"},
};

INSTANTIATE_TEST_SUITE_P(Sizes, Limit, testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Limits, ALongSequenceThatFitsNoBatchIsToldByItsKey) {
  std::vector<std::string> sets{"model.heads=2048", "model.dim=4096", "model.layers=1", "data.seq=16777216"};
  EXPECT_EQ(mistake(std::string(example), sets),
            "--set: data.seq: 1 sequences of 16777216 tokens are 2147483648 blocks of 16 queries (one "
            "attention takes at most 2147483647); use data.batch = 1 and at most 16777200");
  sets.back() = "data.seq=16777200";
  EXPECT_EQ(mistake(std::string(example), sets), "no error");
}

TEST(Limits, RoundsOfLayersHaveNumbers) {
  const auto deck = parse_example({"model.layers=65536", "data.global_batch=2048"});
  EXPECT_EQ(error_of([&] { accumulation(deck, 1); }),
            "--set: data.global_batch: 2048 sequences are 2048 rounds of 65536 layers (a plan numbers the "
            "values of at most 8388607 layers over all rounds); use more ranks, a larger data.batch, or at "
            "most 127");
  EXPECT_EQ(accumulation(deck, 32), 64);
}

/// A suggestion must not break another rule.
TEST(Limits, SuggestedHeadsAreNeitherTooWideNorOdd) {
  int refused = 0;
  for (const std::int64_t dim : {300, 514, 768, 1000, 4096, 12288})
    for (const std::int64_t heads : {1, 2, 3, 5, 7}) {
      const std::string dims = fmt::format("model.dim={}", dim);
      const std::string text = mistake(std::string(example), {dims, fmt::format("model.heads={}", heads)});
      const auto at = text.find("did you mean ");
      if (at == std::string::npos) continue;
      ++refused;
      EXPECT_EQ(mistake(std::string(example),
                        {dims, fmt::format("model.heads={}", std::stoll(text.substr(at + 13)))}),
                "no error")
          << text;
    }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace weft::test
