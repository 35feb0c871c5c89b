#include "deck/suggest.hpp"

#include <gtest/gtest.h>

#include <array>

#include "deck/aliases.hpp"
#include "deck/schema.hpp"

namespace weft::deck {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("warmup", "warmpu"), 1u);
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);  // optimal string alignment: no edit inside a swapped pair
}

TEST(NearestKey, FindsTheTableToo) {
  EXPECT_EQ(nearest_key("optimizer.learning_rate"), "optimizer.lr");
  EXPECT_EQ(nearest_key("run.lr"), "optimizer.lr");
  EXPECT_EQ(nearest_key("model.n_heads"), "model.heads");
  EXPECT_EQ(nearest_key("model.N-Heads"), "model.heads");
  EXPECT_EQ(nearest_key("model.intermediate_sise"), "model.ffn");
  EXPECT_EQ(nearest_key("training.seq_len"), "data.seq");
  EXPECT_EQ(nearest_key("model.rope_scalng"), "model.rope_scaling");
  EXPECT_EQ(nearest_key("run.steps_"), "run.steps");
  EXPECT_EQ(nearest_key("run.qqqqqqqq"), "");
}

TEST(NearestKey, PrefersItsOwnTable) {
  EXPECT_EQ(nearest_key("checkpoint.interval"), "checkpoint.every");
  EXPECT_EQ(nearest_key("log.interval"), "log.every");
  EXPECT_EQ(nearest_key("checkpoint.evry"), "checkpoint.every");
  EXPECT_EQ(nearest_key("metrics.evry"), "log.every");
}

/// What torchtitan's decks have in tables that Weft has not, or for which Weft has nothing.
TEST(NearestKey, KnowsTheTablesOfTorchtitan) {
  EXPECT_EQ(nearest_key("activation_checkpoint.mode"), "schedule.recompute");
  EXPECT_EQ(nearest_key("validation.steps"), "data.valid_sequences");
  EXPECT_EQ(nearest_key("validation.dataset"), "data.valid");
  EXPECT_EQ(nearest_key("validation.freq"), "data.valid_every");
  EXPECT_EQ(nearest_key("validation.seq_len"), "data.seq");
  EXPECT_EQ(nearest_key("training.steps"), "run.steps");
  EXPECT_EQ(nearest_key("comm.init_timeout_seconds"), "run.collective_timeout");
  for (const char* axis : {"data_parallel_shard", "tensor_parallel", "context_parallel", "pipeline_parallel"})
    EXPECT_EQ(nearest_key(std::string("parallelism.") + axis + "_degree"), "parallel.mesh") << axis;
  EXPECT_EQ(nearest_table("activation_checkpoint"), "schedule");
  EXPECT_EQ(nearest_table("comm"), "run");
}

TEST(NearestKey, IsNoneWhereWeftHasNothing) {
  for (const char* key : {"checkpoint.enable", "compile.enable", "validation.enable", "log.enable",
                          "optimizer.name", "model.name", "parallelism.expert_parallel_degree"})
    EXPECT_EQ(nearest_key(key), "") << key;
  EXPECT_EQ(nearest_key("metrics.enable_tensorboard"), "log.tensorboard");
  EXPECT_EQ(nearest_key("metrics.enable_tensorbord"), "log.tensorboard");
}

TEST(NearestWord, KnowsOtherNames) {
  constexpr std::array<std::string_view, 4> modes{"ddp", "zero1", "zero2", "fsdp"};
  EXPECT_EQ(nearest_word("zero3", modes), "fsdp");
  EXPECT_EQ(nearest_word("FSDP", modes), "fsdp");
  EXPECT_EQ(nearest_word("bfloat16", modes), "");
}

/// Of two letters none may differ: "ep" is no "dp".
TEST(NearestWord, TellsShortNamesOfAxesApart) {
  constexpr std::array<std::string_view, 5> axes{"replica", "data", "pipe", "context", "tensor"};
  EXPECT_EQ(nearest_word("dp", axes), "data");
  EXPECT_EQ(nearest_word("tp", axes), "tensor");
  EXPECT_EQ(nearest_word("cp", axes), "context");
  EXPECT_EQ(nearest_word("pp", axes), "pipe");
  EXPECT_EQ(nearest_word("ep", axes), "");
}

TEST(Aliases, LeadToKnownNamesAndHideNone) {
  for (const auto& alias : key_aliases) {
    EXPECT_TRUE(alias.ours.empty() || find_key(alias.ours)) << alias.ours;
    const std::string table(alias.ours.empty() ? "run" : alias.ours.substr(0, alias.ours.rfind('.')));
    EXPECT_FALSE(find_key(table + "." + std::string(alias.theirs))) << alias.theirs << " is a key of its own";
    EXPECT_EQ(nearest_key(table + "." + std::string(alias.theirs)), alias.ours) << alias.theirs;
  }
  for (const auto& alias : path_aliases) {
    EXPECT_TRUE(alias.ours.empty() || find_key(alias.ours)) << alias.ours;
    EXPECT_FALSE(find_key(alias.theirs)) << alias.theirs << " is a key of its own";
  }
  for (const auto& alias : table_aliases) {
    EXPECT_TRUE(find_table(alias.ours) || find_key(alias.ours)) << alias.ours;
    EXPECT_FALSE(find_table(alias.theirs)) << alias.theirs;
  }
}

}  // namespace
}  // namespace weft::deck
