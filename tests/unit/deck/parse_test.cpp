#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "unit/deck/example.hpp"

namespace weft::test {
namespace {

TEST(Parse, TakesTheFileAndTheDefaults) {
  const auto deck = parse_example();
  EXPECT_EQ(deck.run.steps, 10);
  EXPECT_EQ(deck.run.name, "weft");
  EXPECT_EQ(deck.run.dir, "runs/weft");
  EXPECT_EQ(deck.run.seed, 1234);
  EXPECT_EQ(deck.model.dim, 64);
  EXPECT_EQ(deck.model.kv_heads, 4);  // as many as there are heads
  EXPECT_EQ(deck.model.rope_theta, 500000);
  EXPECT_EQ(deck.model.rope_scaling.factor, 1);
  EXPECT_TRUE(deck.data.synthetic);
  EXPECT_TRUE(deck.data.train.empty());
  EXPECT_EQ(deck.optimizer.lr, 1e-3);
  EXPECT_EQ(deck.optimizer.beta2, 0.95);
  EXPECT_EQ(deck.optimizer.decay, LrDecay::cosine);
  EXPECT_EQ(deck.optimizer.decay_steps, 0);
  EXPECT_EQ(deck.parallel.mode, ShardMode::fsdp);
  EXPECT_EQ(deck.parallel.mesh, (std::vector<MeshAxis>{{"data", 0}}));
  EXPECT_EQ(deck.precision.params, DType::f32);
  EXPECT_EQ(deck.checkpoint.resume, "auto");
  EXPECT_EQ(deck.source, "d.toml");
}

TEST(Parse, CudaGraph) {
  EXPECT_EQ(parse_example().schedule.cuda_graph, CudaGraph::automatic);
  EXPECT_EQ(parse_example({"schedule.cuda_graph=off"}).schedule.cuda_graph, CudaGraph::off);
  EXPECT_EQ(parse_example({"schedule.cuda_graph=auto"}).schedule.cuda_graph, CudaGraph::automatic);
}

/// The deck as a run prints it, without the line of a key.
std::string saved_without(const std::string& key, const Deck& deck) {
  std::string text;
  std::istringstream lines(print_deck(deck));
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with(key + " = ")) text += line + '\n';
  return text;
}

TEST(Parse, ASavedDeckWithoutAKeyIsOfThen) {
  Deck deck = parse_example();
  EXPECT_EQ(parse_saved_deck(print_deck(deck), "saved").precision.f32_products, F32Products::split);
  const std::string then = saved_without("f32_products", deck);
  deck.precision.f32_products = F32Products::plain;
  EXPECT_TRUE(parse_saved_deck(then, "saved") == deck);
}

/// Norms' weights had the type of all parameters.
TEST(Parse, ASavedDeckWithoutTheNormsTypeHasThatOfThen) {
  for (const DType params : {DType::f32, DType::bf16}) {
    Deck deck = parse_example();
    deck.precision.params = params;
    EXPECT_EQ(parse_saved_deck(print_deck(deck), "saved").precision.norms, DType::f32);
    const std::string then = saved_without("norms", deck);
    deck.precision.norms = params;
    EXPECT_TRUE(parse_saved_deck(then, "saved") == deck);
  }
}

/// This version refuses more than earlier ones did.
TEST(Parse, ASavedDeckMayBeOneThatIsRefusedToday) {
  Deck deck = parse_example();
  deck.precision.float8 = {""};
  deck.precision.params = DType::f32;
  EXPECT_THROW(validate(deck), Error);
  EXPECT_TRUE(parse_saved_deck(print_deck(deck), "saved") == deck);
  EXPECT_THROW(parse_saved_deck("[model]\ndim = 0\n", "saved"), Error);
}

TEST(Parse, IntegerForANumber) {
  EXPECT_EQ(parse_deck_text(with_line(14, "lr = 2"), "d.toml").optimizer.lr, 2.0);
}

TEST(Parse, DefaultsThatFollowOtherKeys) {
  EXPECT_EQ(parse_example({"run.name=x"}).run.dir, "runs/x");
  EXPECT_EQ(parse_example({"run.name=x", "run.dir=/scratch/y"}).run.dir, "/scratch/y");
  EXPECT_EQ(parse_example({"model.heads=8"}).model.kv_heads, 8);
  EXPECT_EQ(parse_example({"model.kv_heads=2"}).model.kv_heads, 2);
  EXPECT_EQ(parse_example({"optimizer.decay=wsd", "run.steps=200"}).optimizer.decay_steps, 20);
  // The default decay is no longer than what the warm-up leaves.
  const auto decay = [](const char* steps, const char* warmup) {
    return parse_example({"optimizer.decay=wsd", std::string("run.steps=") + steps,
                          std::string("optimizer.warmup=") + warmup})
        .optimizer.decay_steps;
  };
  EXPECT_EQ(decay("200", "195"), 5);
  EXPECT_EQ(decay("3", "3"), 0);
  EXPECT_EQ(decay("1", "1"), 0);
  EXPECT_EQ(decay("1", "0"), 1);
  EXPECT_EQ(parse_example({"optimizer.decay=wsd", "run.steps=5"}).optimizer.decay_steps, 1);
}

TEST(Parse, ListsAndSubtables) {
  const auto deck = parse_deck_text(with_line(10, "train = [\"a.bin\", \"b.bin\"]\nvalid = \"v.bin\"") +
                                        "[model.rope_scaling]\nfactor = 8\n[parallel]\nmesh = { data = 4 }\n",
                                    "d.toml", std::vector<std::string>{});
  EXPECT_EQ(deck.data.train, (std::vector<std::string>{"a.bin", "b.bin"}));
  EXPECT_EQ(deck.data.valid, std::vector<std::string>{"v.bin"});
  EXPECT_EQ(deck.model.rope_scaling.factor, 8);
  EXPECT_EQ(deck.parallel.mesh, (std::vector<MeshAxis>{{"data", 4}}));
}

TEST(Parse, Walltime) {
  const auto walltime = [](const char* text) {
    return parse_example({std::string("run.walltime=") + text}).run.walltime;
  };
  EXPECT_EQ(walltime("90"), 90.0);
  EXPECT_EQ(walltime("2h30m"), 9000.0);
  EXPECT_EQ(walltime("\"2h30m\""), 9000.0);
  EXPECT_EQ(walltime("02:30:00"), 9000.0);  // a TOML time
  EXPECT_EQ(walltime("1-00:00:00"), 86400.0);
  EXPECT_EQ(walltime("100:00:00"), 360000.0);
}

TEST(Set, LastOneWins) {
  EXPECT_EQ(parse_example({"run.steps=5", "run.steps=7"}).run.steps, 7);
}

TEST(Set, TakesTomlAndBareWords) {
  const auto deck =
      parse_example({" parallel.mode = zero1 ", "run.name=2024", "schedule.disable=[\"order\", \"bucket\"]",
                     "model.rope_scaling={factor=8, low_freq_factor=2}", "data.train=a=b.bin",
                     "checkpoint.resume='runs/x y'", "parallel.mesh.data=2", "optimizer.lr=1e-2",
                     "precision.params=bf16", "model.tie_embeddings=true", "model.rope_scaling.factor=4"});
  EXPECT_EQ(deck.parallel.mode, ShardMode::zero1);
  EXPECT_EQ(deck.run.name, "2024");
  EXPECT_EQ(deck.schedule.disable, (std::vector<std::string>{"order", "bucket"}));
  EXPECT_EQ(deck.model.rope_scaling.factor, 4);
  EXPECT_EQ(deck.model.rope_scaling.low_freq_factor, 2);
  EXPECT_EQ(deck.data.train, std::vector<std::string>{"a=b.bin"});
  EXPECT_EQ(deck.checkpoint.resume, "runs/x y");
  EXPECT_EQ(deck.parallel.mesh, (std::vector<MeshAxis>{{"data", 2}}));
  EXPECT_EQ(deck.optimizer.lr, 1e-2);
  EXPECT_EQ(deck.precision.params, DType::bf16);
  EXPECT_TRUE(deck.model.tie_embeddings);
}

TEST(Set, ATableIsMergedIntoTheFiles) {
  const auto deck =
      parse_example({"model={rope_scaling={factor=2}, ffn=32}", "model={rope_scaling={high_freq_factor=5}}"});
  EXPECT_EQ(deck.model.dim, 64);
  EXPECT_EQ(deck.model.ffn, 32);
  EXPECT_EQ(deck.model.rope_scaling.factor, 2);
  EXPECT_EQ(deck.model.rope_scaling.high_freq_factor, 5);
}

TEST(Set, MakesAFileComplete) {
  EXPECT_EQ(parse_deck_text(with_line(2, ""), "d.toml", std::vector<std::string>{"run.steps=3"}).run.steps,
            3);
}

TEST(PlaceOf, NamesTheLine) {
  const auto deck = parse_example({"run.seed=1"});
  EXPECT_EQ(place_of(deck, "model.dim"), "d.toml:4: model.dim");
  EXPECT_EQ(place_of(deck, "run.seed"), "--set: run.seed");
  EXPECT_EQ(place_of(deck, "run.name"), "d.toml: run.name");
  EXPECT_EQ(place_of(Deck{}, "run.name"), "deck: run.name");
}

TEST(Validate, ADeckMadeInCode) {
  auto deck = parse_example();
  EXPECT_NO_THROW(validate(deck));
  deck.model.kv_heads = 0;
  EXPECT_EQ(error_of([&] { validate(deck); }), "d.toml: model.kv_heads: 0 is out of range (1 to 65536)");
}

}  // namespace
}  // namespace weft::test
