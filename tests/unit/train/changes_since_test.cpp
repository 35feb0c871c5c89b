#include <gtest/gtest.h>

#include "support/small_deck.hpp"
#include "train/checkpointing.hpp"

namespace weft::train {
namespace {

/// What a resume says where `from` was saved on `before` ranks, and `to` goes on with `now` ranks.
std::string said(const Deck& from, int before, const Deck& to, int now) {
  ckpt::RunState saved;
  saved.deck = print_deck(from);
  saved.world = before;
  const std::string line = changes_since(saved, to, now);
  const std::string head = "settings changed since the checkpoint: ";
  return line.starts_with(head) ? line.substr(head.size()) : line;
}

/// An axis that takes what remains has another size on other ranks.
TEST(ChangesSince, TellsAxesByTheirSizes) {
  const Deck open = test::small_deck({"parallel.mesh={ data = 1, tensor = 0 }"});
  EXPECT_EQ(said(open, 1, open, 2), "parallel.mesh tensor 1 -> 2");
  EXPECT_EQ(said(open, 2, open, 2), "");
  EXPECT_EQ(said(open, 2, test::small_deck({"parallel.mesh={ tensor = 2 }"}), 4), "")
      << "the data axis takes the rest";
  const Deck replicas = test::small_deck({"parallel.mesh={ replica = 2, data = 0 }"});
  EXPECT_EQ(said(replicas, 4, test::small_deck({"optimizer.clip=2.0"}), 4),
            "optimizer.clip 1.0 -> 2.0, parallel.mesh replica 2 -> 1");
}

/// With tied embeddings the table's gradient is a sum of two stages' on a pipe, and of one elsewhere.
TEST(ChangesSince, TellsAPipeWhereItAddsUpATiedTable) {
  const Deck one = test::small_deck({"model.tie_embeddings=true"});
  const Deck pipe = test::small_deck({"model.tie_embeddings=true", "parallel.mesh={ pipe = 2 }"});
  EXPECT_EQ(said(one, 1, pipe, 2), "parallel.mesh pipe 1 -> 2");
  EXPECT_EQ(said(pipe, 2, one, 1), "parallel.mesh pipe 2 -> 1");
  EXPECT_EQ(said(pipe, 2, pipe, 4), "");
  EXPECT_EQ(said(test::small_deck(), 1, test::small_deck({"parallel.mesh={ pipe = 2 }"}), 2), "");
}

}  // namespace
}  // namespace weft::train
