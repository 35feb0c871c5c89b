#include "report/flops.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compile/programs.hpp"
#include "support/small_deck.hpp"

namespace weft::report {
namespace {

// Llama 3 8B at T = 8192. By hand: N = 8,030,261,248; the table 128256 x 4096 = 525,336,576 is only looked
// up. 6 * 7,504,924,672 = 45,029,548,032; 12 * 32 * 32 * 128 * 8192 = 12,884,901,888.
constexpr ModelSize llama3_8b{8'030'261'248, 525'336'576, 32, 32, 128, 8192};

TEST(Flops, Llama3_8B) {
  EXPECT_EQ(flops_per_token(llama3_8b), 45'029'548'032.0 + 12'884'901'888.0);
}

TEST(Flops, Llama3_405BDoesNotOverflow) {
  const ModelSize size{405'853'388'800, 128'256 * 16'384ll, 126, 128, 128, 8192};
  EXPECT_EQ(flops_per_token(size), 2'422'512'254'976.0 + 202'937'204'736.0);
}

/// The table counts where it is the head, too: the model multiplies by it, whether it has one table or two.
TEST(Flops, AModelIsAsLargeAsItsParametersAndMultipliesByItsHead) {
  std::vector<double> flops;
  for (const bool tied : {false, true}) {
    const Deck deck = test::small_deck({"model.layers=3", "model.heads=8", "data.seq=48",
                                        "model.tie_embeddings=" + std::string(tied ? "true" : "false")});
    std::int64_t all = 0, looked_up = 0;
    for (const Unit& unit : model::units(compile::spec_of(deck))) {
      all += unit.elements;
      if (unit.path == "embed" && !tied) looked_up = unit.elements;
    }
    const ModelSize size = model_size(deck);
    EXPECT_EQ(size.parameters, all) << tied;
    EXPECT_EQ(size.embedding_parameters, looked_up) << tied;
    EXPECT_EQ(size.layers, 3);
    EXPECT_EQ(size.heads, 8);
    EXPECT_EQ(size.head_dim, 8);
    EXPECT_EQ(size.seq, 48);
    flops.push_back(flops_per_token(size));
  }
  EXPECT_EQ(flops[0], flops[1]);
}

TEST(Flops, MfuNeedsAPeak) {
  EXPECT_FALSE(mfu(1000, 5.0e10, 0).has_value());
  EXPECT_DOUBLE_EQ(mfu(8000, 5.0e10, 1.0e15).value(), 0.4);
}

}  // namespace
}  // namespace weft::report
