#include <gtest/gtest.h>

#include "unit/deck/example.hpp"

namespace weft::test {
namespace {

std::int64_t count(const char* name) {
  return parameter_count(parse_deck(input_path(name)).model);
}

TEST(ParameterCount, OfTheInputs) {
  // The counts of Llama are those of Meta's releases. The others were added up by hand.
  EXPECT_EQ(count("llama3_8b"), 8'030'261'248);
  EXPECT_EQ(count("llama3_70b"), 70'553'706'496);
  EXPECT_EQ(count("llama3_405b"), 405'853'388'800);
  EXPECT_EQ(count("bench_33m"), 33'563'136);
  EXPECT_EQ(count("quickstart"), 6'524'160);
}

TEST(ParameterCount, TiedEmbeddingCountsOnce) {
  auto model = parse_example().model;
  const auto untied = parameter_count(model);
  model.tie_embeddings = true;
  EXPECT_EQ(untied - parameter_count(model), model.vocab * model.dim);
}

std::string accumulation_error(const Deck& deck, int ranks) {
  return error_of([&] { accumulation(deck, ranks); });
}

TEST(Accumulation, Divides) {
  const auto deck = parse_example({"data.global_batch=32", "data.batch=4"});
  EXPECT_EQ(accumulation(deck, 1), 8);
  EXPECT_EQ(accumulation(deck, 2), 4);
  EXPECT_EQ(accumulation(deck, 8), 1);
}

TEST(Accumulation, NamesWhatWouldDivide) {
  const auto deck = parse_example({"data.batch=2"});  // global_batch = 8: four microbatches
  EXPECT_EQ(accumulation_error(deck, 3),
            "d.toml:12: data.global_batch: 8 sequences do not divide into microbatches of 2 on 3 "
            "data-parallel ranks (a round "
            "takes 6); use 2 or 4 ranks, or global_batch = 6 or 12");
  EXPECT_EQ(accumulation_error(deck, 8),
            "d.toml:12: data.global_batch: 8 sequences do not divide into microbatches of 2 on 8 "
            "data-parallel ranks (a round "
            "takes 16); use 4 ranks, or global_batch = 16");
}

/// 16777213 is a prime number, the largest below the most sequences that a deck takes.
TEST(Accumulation, NamesWhatDividesAPrimeNumber) {
  const auto deck = parse_example({"data.batch=1", "data.global_batch=16777213"});
  EXPECT_EQ(accumulation_error(deck, 2),
            "--set: data.global_batch: 16777213 sequences do not divide into microbatches of 1 on 2 "
            "data-parallel ranks (a round "
            "takes 2); use 1 or 16777213 ranks, or global_batch = 16777212 or 16777214");
}

/// The largest global batch that a deck takes is 16777216.
TEST(Accumulation, NamesNoBatchThatNoDeckTakes) {
  const auto deck = parse_example({"data.batch=1"});
  EXPECT_EQ(accumulation_error(deck, 1'000'000'000),
            "d.toml:12: data.global_batch: 8 sequences do not divide into microbatches of 1 on 1000000000 "
            "data-parallel ranks (a round "
            "takes 1000000000); use 8 ranks");
}

TEST(Accumulation, AdviceHolds) {
  for (int batch = 1; batch <= 4; ++batch)
    for (int microbatches = 1; microbatches <= 24; ++microbatches)
      for (int ranks = 1; ranks <= 30; ++ranks) {
        auto deck = parse_example();
        deck.data.batch = batch;
        deck.data.global_batch = batch * microbatches;
        const auto message = accumulation_error(deck, ranks);
        EXPECT_EQ(message == "no error", microbatches % ranks == 0);
        if (message == "no error") continue;
        int fewer = 0, more = 0;
        const auto advice = message.substr(message.find("; use ") + 6);
        const int read = std::sscanf(advice.c_str(), "%d or %d ranks", &fewer, &more);
        EXPECT_EQ(accumulation_error(deck, fewer), "no error") << message;
        if (read == 2) {
          EXPECT_EQ(accumulation_error(deck, more), "no error") << message;
        }
        deck.data.global_batch = std::atol(message.substr(message.rfind("= ") + 2).c_str());
        EXPECT_EQ(accumulation_error(deck, ranks), "no error") << message;
      }
}

TEST(ResolveMesh, ZeroTakesWhatRemains) {
  const auto mesh = resolve_mesh(parse_example(), 6);
  EXPECT_EQ(mesh.world(), 6);
  EXPECT_EQ(mesh.size(mesh.axis("data")), 6);
}

TEST(ResolveMesh, DataLeftOutTakesWhatRemains) {
  using Axes = std::vector<MeshAxis>;
  const auto axes = [](const std::string& mesh) {
    return resolve_mesh(parse_example({"parallel.mesh=" + mesh}), 6).axes();
  };
  EXPECT_EQ(axes("{}"), (Axes{{"data", 6}}));
  EXPECT_EQ(axes("{ replica = 2 }"), (Axes{{"replica", 2}, {"data", 3}}));
  EXPECT_EQ(axes("{ replica = 0 }"), (Axes{{"replica", 6}, {"data", 1}}));
  EXPECT_EQ(error_of([&] { axes("{ replica = 4 }"); }),
            "--set: parallel.mesh: 6 ranks do not divide by 4 (mesh { replica = 4, data = 0 }); start a "
            "multiple of 4 ranks");
}

TEST(ResolveMesh, TensorDividesWhatItCuts) {
  const auto refusal = [](std::vector<std::string> sets, int ranks) {
    sets.push_back("parallel.mesh={ tensor = " + std::to_string(ranks) + " }");
    const std::string text = error_of([&] { resolve_mesh(parse_example(sets), ranks); });
    const std::string start = "--set: parallel.mesh: tensor = " + std::to_string(ranks);
    EXPECT_EQ(text.substr(0, start.size()), start);
    return text.substr(start.size());
  };
  const std::vector<std::string> model{"model.dim=96", "model.heads=12",  "model.kv_heads=4",
                                       "model.ffn=96", "model.vocab=256", "data.seq=48"};
  const auto with = [&](const std::string& set) {
    std::vector<std::string> sets = model;
    sets.push_back(set);
    return sets;
  };
  EXPECT_NO_THROW(resolve_mesh(parse_example(with("parallel.mesh={ tensor = 4 }")), 4));
  EXPECT_EQ(refusal(model, 3),
            " does not divide model.vocab = 256 (each rank of the axis has an equal part of the vocabulary); "
            "use model.vocab = 258");
  const std::string parts =
      " (each rank of the axis has equal parts of the heads, the feed-forward and the tokens); use tensor = ";
  EXPECT_EQ(refusal(model, 8), " does not divide model.heads = 12" + parts + "6 or 12");
  EXPECT_EQ(refusal(with("model.ffn=98"), 4), " does not divide model.ffn = 98" + parts + "2");
  EXPECT_EQ(refusal(with("data.seq=50"), 4), " does not divide data.seq = 50" + parts + "2");
  EXPECT_EQ(
      refusal(with("model.vocab=258"), 6),
      " neither divides model.kv_heads = 4 nor is a multiple of it (each rank of the axis has whole heads "
      "of keys and values); use tensor = 4");
}

TEST(ResolveMesh, ContextNamesNoSequenceThatNoDeckTakes) {
  const auto refusal = [](const std::string& ranks) {
    return error_of([&] {
      resolve_mesh(parse_example({"parallel.mesh={ context = " + ranks + " }"}), std::stoi(ranks));
    });
  };
  EXPECT_EQ(refusal("64"),
            "--set: parallel.mesh: data.seq = 32 does not divide by 128 (each of the context = 64 ranks has "
            "two sections of every sequence); use data.seq = 128");
  EXPECT_EQ(refusal("16777216"),
            "--set: parallel.mesh: data.seq = 32 does not divide by 33554432 (each of the context = 16777216 "
            "ranks has two sections of every sequence)");
}

/// An open choice is printed as such, read again, and is no mesh before somebody chooses.
TEST(ResolveMesh, AutoIsChosenElsewhere) {
  const Deck deck = parse_example({"parallel.mesh=auto"});
  EXPECT_TRUE(deck.parallel.mesh.empty());
  EXPECT_NE(print_deck(deck).find("\nmesh = \"auto\"\n"), std::string::npos);
  EXPECT_EQ(parse_deck_text(print_deck(deck), "again.toml"), deck);
  EXPECT_EQ(error_of([&] { resolve_mesh(deck, 6); }).substr(0, 53),
            "--set: parallel.mesh: \"auto\" is chosen by `weft train");
  EXPECT_FALSE(parse_example({"parallel.mesh={}"}).parallel.mesh.empty());
}

TEST(ResolveMesh, AxesKeepTheirOrder) {
  auto deck = parse_example();
  deck.parallel.mesh = {{"replica", 0}, {"data", 4}};
  const auto mesh = resolve_mesh(deck, 12);
  ASSERT_EQ(mesh.axes().size(), 2u);
  EXPECT_EQ(mesh.axes()[0], (MeshAxis{"replica", 3}));
  EXPECT_EQ(mesh.axes()[1], (MeshAxis{"data", 4}));
  EXPECT_EQ(error_of([&] { resolve_mesh(deck, 6); }),
            "d.toml: parallel.mesh: 6 ranks do not divide by 4 (mesh { replica = 0, data = 4 }); start a "
            "multiple of 4 ranks");
}

/// Ranks are numbered along the last axis: a group of it is made of neighbours.
TEST(ResolveMesh, InnerAxisIsOfNeighbours) {
  const auto mesh = resolve_mesh(parse_example({"parallel.mesh={ replica = 2, data = 0 }"}), 6);
  const int replica = mesh.axis("replica"), data = mesh.axis("data");
  EXPECT_EQ(mesh.group(4, data), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(mesh.group(4, replica), (std::vector<int>{1, 4}));
  EXPECT_EQ(mesh.coordinate(4, data), 1);
  EXPECT_EQ(mesh.coordinate(4, replica), 1);
  EXPECT_EQ(mesh.stride(data), 1);
  EXPECT_EQ(mesh.stride(replica), 3);
  EXPECT_EQ(mesh.size("replica"), 2);
  EXPECT_EQ(resolve_mesh(parse_example(), 6).size("replica"), 1);
}

/// The first mesh has 2^64 places, which are 0 in 64 bits, and the second 2^32.
TEST(ResolveMesh, MorePlacesThanThereCanBeRanksAreRefused) {
  const auto refusal = [](const std::string& mesh) {
    return error_of([&] { resolve_mesh(parse_example({"parallel.mesh=" + mesh}), 4); });
  };
  EXPECT_EQ(refusal("{ replica = 16777216, pipe = 16777216, context = 65536 }"),
            "--set: parallel.mesh: more places than there can be ranks (mesh { replica = 16777216, pipe = "
            "16777216, data = 0, context = 65536 }); give the axes smaller sizes");
  EXPECT_EQ(refusal("{ replica = 65536, data = 65536 }"),
            "--set: parallel.mesh: more places than there can be ranks (mesh { replica = 65536, data = 65536 "
            "}); give the axes smaller sizes");
  EXPECT_EQ(refusal("{ replica = 16777216, data = 127 }"),
            "--set: parallel.mesh: 4 ranks were started for 2130706432 places (mesh { replica = 16777216, "
            "data = 127 }); start 2130706432, or give an axis size 0 to take what remains");
}

TEST(ResolveMesh, CountsPlaces) {
  const auto deck = parse_example({"parallel.mesh.data=4"});
  EXPECT_EQ(resolve_mesh(deck, 4).world(), 4);
  EXPECT_EQ(error_of([&] { resolve_mesh(deck, 6); }),
            "--set: parallel.mesh: 6 ranks were started for 4 places (mesh { data = 4 }); start 4, or give "
            "an axis size 0 to take "
            "what remains");
}

}  // namespace
}  // namespace weft::test
