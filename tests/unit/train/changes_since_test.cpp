// Tests what a run may change when it goes on from a checkpoint: what is refused, and what is told.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.hpp"
#include "compile/programs.hpp"
#include "support/small_deck.hpp"
#include "train/checkpointing.hpp"
#include "train/continuation.hpp"

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

/// What a run with `deck` is refused with when it goes on from step 5 of the small deck, at `sample`; empty
/// where it is not.
std::string refused(const Deck& deck, std::int64_t sample = 60) {
  const Deck first = test::small_deck();
  ckpt::RunState saved;
  saved.step = 5;
  saved.sample = sample;
  saved.seed = static_cast<std::uint64_t>(first.run.seed);
  saved.deck = print_deck(first);
  try {
    check_continues(saved, deck, {}, "c");
  } catch (const Error& e) {
    return e.code() == ExitCode::bad_input ? e.what() : "another exit code";
  }
  return "";
}

/// Many other batches divide the samples that the run has seen, too.
TEST(Continues, WithTheGlobalBatchThatWasSavedAndNoOther) {
  for (int batch = 1; batch <= 60; ++batch) {
    const std::string key = "data.global_batch";
    const std::string told = refused(test::small_deck({key + "=" + std::to_string(batch)}));
    EXPECT_EQ(told.starts_with("--set: " + key + ": "), batch != 12) << batch << " " << told;
    EXPECT_EQ(told.empty(), batch == 12) << batch;
  }
}

TEST(Continues, WithTheSeedThatWasSavedAndNoOther) {
  for (int seed = 0; seed <= 20; ++seed) {
    const std::string told = refused(test::small_deck({"run.seed=" + std::to_string(seed)}));
    EXPECT_EQ(told.starts_with("--set: run.seed: "), seed != 7) << seed << " " << told;
    EXPECT_EQ(told.empty(), seed == 7) << seed;
  }
}

/// Steps that were left out bring it further than the number of steps alone.
TEST(Continues, WhereAStepBegins) {
  for (int sample = 0; sample <= 150; ++sample)
    EXPECT_EQ(refused(test::small_deck(), sample).empty(), sample >= 60 && sample % 12 == 0) << sample;
}

/// The number of heads changes what weights mean. With heads and those of keys and values doubled, all have
/// the shapes that they had.
TEST(ModelKey, TellsEverySizeOfTheModelAndNothingElse) {
  const auto key = [](const std::vector<std::string>& sets) { return model_key(test::small_deck(sets)); };
  const std::string own = key({});
  for (const char* size : {"model.dim=128", "model.layers=3", "model.heads=8", "model.kv_heads=4",
                           "model.ffn=180", "model.vocab=301", "model.tie_embeddings=true"})
    EXPECT_NE(key({size}), own) << size;
  for (const char* other : {"model.norm_eps=1e-6", "model.rope_theta=10000", "model.init_std=0.5",
                            "run.name=other", "data.seq=48", "precision.params=bf16"})
    EXPECT_EQ(key({other}), own) << other;
  const std::vector<std::string> heads{"model.heads=8", "model.kv_heads=4"};
  EXPECT_NE(key(heads), own);
  const auto shapes = [](const std::vector<std::string>& sets) {
    std::vector<Shape> all;
    for (const Unit& unit : model::units(compile::spec_of(test::small_deck(sets))))
      for (const Parameter& p : unit.parameters) all.push_back(p.shape);
    return all;
  };
  EXPECT_EQ(shapes(heads), shapes({})) << "shapes tell them apart, and this test shows less than it says";
}

}  // namespace
}  // namespace weft::train
