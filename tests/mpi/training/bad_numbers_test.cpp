// Tests steps whose loss is not finite: they change nothing, the run goes on as the deck says, and the first
// bad value is named. The trigger is real: the embedding of one token is infinite, and few batches have that
// token.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>

#include "base/check.hpp"
#include "ckpt/load.hpp"
#include "mpi/training/cut_axis.hpp"
#include "support/curve.hpp"
#include "support/kokkos_environment.hpp"
#include "support/mpi_environment.hpp"
#include "support/pipe_meshes.hpp"
#include "support/reference.hpp"
#include "support/shared_deck.hpp"

namespace weft {
namespace {

constexpr std::int32_t rare = 299;
const char* const all_modes[] = {"ddp", "zero1", "zero2", "fsdp"};

/// What a bad step has: one microbatch has the rare token, or none has anything to predict.
enum class Bad {
  middle,      ///< the last rank of a context axis has the token, and its neighbours attend to it
  end,         ///< the first rank of a context axis has it, and nothing attends to it
  no_targets,  ///< no target counts
};

/// Gives synthetic tokens without the rare one, but for the bad steps. Step s of a run gets the data of step
/// order[s].
class Batches final : public data::BatchSource {
 public:
  Batches(const Deck& deck, std::set<std::int64_t> bad, std::vector<std::int64_t> order = {},
          Bad kind = Bad::middle)
      : base_(data::synthetic_batches(3, rare, {deck.data.batch, deck.data.global_batch, deck.data.seq})),
        elements_(deck.data.batch * deck.data.seq),
        bad_microbatch_(deck.data.global_batch / deck.data.batch * 7 / 12),
        bad_(std::move(bad)),
        kind_(kind),
        order_(std::move(order)) {}

  void fill(std::int64_t step, std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
            std::int32_t* positions) const override {
    if (!order_.empty()) step = order_[static_cast<std::size_t>(step)];
    base_->fill(step, microbatch, tokens, targets, positions);
    if (!bad_.contains(step)) return;
    if (kind_ == Bad::no_targets)
      std::fill_n(targets, elements_, -1);
    else if (microbatch == bad_microbatch_)
      tokens[kind_ == Bad::end ? elements_ - 1 : elements_ / 2] = rare;
  }

 private:
  std::unique_ptr<data::BatchSource> base_;
  std::int64_t elements_, bad_microbatch_;  ///< the last rank's where there are two, three or four
  std::set<std::int64_t> bad_;
  Bad kind_;
  std::vector<std::int64_t> order_;
};

/// Batches whose first steps have no targets.
std::unique_ptr<Batches> without_targets(const Deck& deck) {
  return std::make_unique<Batches>(deck, std::set<std::int64_t>{0, 1}, std::vector<std::int64_t>{},
                                   Bad::no_targets);
}

/// A small deck with a run directory of its own, the same on all ranks.
Deck deck_with(const std::vector<std::string>& sets, comm::World& world) {
  static int runs = 0;
  std::vector<std::string> all{test::unit_buckets,
                               "data.global_batch=" + std::to_string(test::shared_batch())};
  all.insert(all.end(), sets.begin(), sets.end());
  Deck deck = test::small_deck(all);
  deck.run.dir = world.broadcast(deck.run.dir + "-" + std::to_string(++runs), 0);
  // It may be of another process with this number.
  if (world.rank() == 0) std::filesystem::remove_all(deck.run.dir);
  world.barrier();
  return deck;
}

std::vector<float> embedding_with(float of_rare) {
  std::vector<float> table(std::size_t{300} * 64);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = 0.02F * std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < 64; ++i) table[std::size_t{rare} * 64 + i] = of_rare;
  return table;
}

void make_rare_token_infinite(train::Trainer& trainer) {
  trainer.state().set_parameter("embed.table", embedding_with(std::numeric_limits<float>::infinity()));
  trainer.state().publish();
}

std::unique_ptr<train::Trainer> trainer_of(const Deck& deck, comm::World& world, std::set<std::int64_t> bad,
                                           std::vector<std::int64_t> order = {}, Bad kind = Bad::middle) {
  auto trainer = std::make_unique<train::Trainer>(
      deck, world, std::make_unique<Batches>(deck, std::move(bad), std::move(order), kind));
  if (trainer->step() == 0) make_rare_token_infinite(*trainer);
  return trainer;
}

/// The log of rank 0; empty on other ranks.
std::string log_of(const Deck& deck) {
  if (test::world().rank() != 0) return {};
  std::ifstream in(deck.run.dir + "/log.txt");
  return {std::istreambuf_iterator<char>(in), {}};
}

void expect_in_log(const Deck& deck, const std::string& text) {
  if (test::world().rank() != 0) return;
  EXPECT_NE(log_of(deck).find(text), std::string::npos) << text << " is not in\n" << log_of(deck);
}

/// Losses of the good steps, and the state after them. The third step is bad.
test::Curve around_a_bad_step(const std::vector<std::string>& sets, comm::World& world,
                              Bad kind = Bad::middle) {
  const auto trainer = trainer_of(deck_with(sets, world), world, {2}, {}, kind);
  test::Curve curve = test::train_steps(*trainer, 2);
  const std::uint64_t before = curve.hash;
  const report::StepMetrics bad = trainer->train_step();
  EXPECT_FALSE(bad.updated);
  EXPECT_FALSE(std::isfinite(bad.loss));
  EXPECT_EQ(trainer->state().hash(), before);
  EXPECT_EQ(trainer->step(), 3);
  const test::Curve after = test::train_steps(*trainer, 3);
  curve.losses.insert(curve.losses.end(), after.losses.begin(), after.losses.end());
  curve.norms.insert(curve.norms.end(), after.norms.begin(), after.norms.end());
  curve.tokens.insert(curve.tokens.end(), after.tokens.begin(), after.tokens.end());
  for (const double loss : curve.losses) EXPECT_TRUE(std::isfinite(loss));
  curve.hash = after.hash;
  EXPECT_NE(curve.hash, before);
  return curve;
}

class BadStep : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(BadStep, ChangesNothingOnAnyRanksInAnyMode) {
  const test::Curve alone = test::from_rank_zero([] {
    const auto self = comm::make_self_world();
    return around_a_bad_step(GetParam(), *self);
  });
  for (const char* mode : all_modes) {
    SCOPED_TRACE(mode);
    std::vector<std::string> sets = GetParam();
    sets.push_back(std::string("parallel.mode=") + mode);
    const test::Curve curve = around_a_bad_step(sets, test::world());
    EXPECT_EQ(curve, alone);
  }
  for (const std::string& mesh : test::pipe_meshes()) {
    SCOPED_TRACE(mesh);
    std::vector<std::string> sets = GetParam();
    sets.push_back(mesh);
    EXPECT_EQ(around_a_bad_step(sets, test::world()), alone);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Precisions, BadStep,
    testing::Values(std::vector<std::string>{}, std::vector<std::string>{"precision.params=bf16"},
                    std::vector<std::string>{"optimizer.clip=0.0", "schedule.disable=share"}));

/// The ranks of these axes compute a step in parts, and the bad number is in the parts of some of them. The
/// others must leave the update out, too, so the curve is that of the same mesh when the step has no targets.
TEST(BadNumbers, OfSomeRanksChangeNothingOnAny) {
  if (test::world().size() % 2 != 0) GTEST_SKIP() << "needs axes of two ranks";
  using Meshes = std::vector<std::string>;
  for (const Meshes& meshes : {test::meshes_with("tensor", 2), test::meshes_with("context", 2),
                               Meshes{"parallel.mesh={ replica = 2, data = 0 }"}}) {
    SCOPED_TRACE(testing::PrintToString(meshes));
    const test::Curve expected = around_a_bad_step({meshes.front()}, test::world(), Bad::no_targets);
    EXPECT_EQ(around_a_bad_step({meshes.front()}, test::world(), Bad::middle), expected);
    EXPECT_EQ(around_a_bad_step({meshes.back()}, test::world(), Bad::end), expected);
  }
}

TEST(BadNumbers, AStepWithoutTargetsChangesNothing) {
  const Deck deck = deck_with({}, test::world());
  train::Trainer trainer(deck, test::world(), without_targets(deck));
  const std::uint64_t before = trainer.state().hash();
  EXPECT_FALSE(trainer.train_step().updated);
  EXPECT_EQ(trainer.state().hash(), before);
}

TEST(Skip, ARunThatIsResumedBehindItHasTheSameBits) {
  const std::vector<std::string> sets{"optimizer.nonfinite=skip", "run.steps=6", "checkpoint.every=4",
                                      "checkpoint.resume=auto"};
  const Deck deck = deck_with(sets, test::world());
  auto whole = trainer_of(deck, test::world(), {2});
  EXPECT_EQ(whole->run(), train::Outcome::finished);
  const std::uint64_t expected = whole->state().hash();
  whole.reset();  // only one run may hold the directory
  if (test::world().rank() == 0) std::filesystem::remove_all(deck.run.dir + "/checkpoints/step-00000006");
  test::world().barrier();
  const auto resumed = trainer_of(deck, test::world(), {2});
  EXPECT_EQ(resumed->step(), 4);
  EXPECT_EQ(resumed->run(), train::Outcome::finished);
  EXPECT_EQ(resumed->state().hash(), expected);
}

/// The names of the checkpoints of a deck's run, in order, as rank 0 sees them.
std::string checkpoints_of(const Deck& deck) {
  std::set<std::string> names;
  if (test::world().rank() == 0)
    for (const auto& entry : std::filesystem::directory_iterator(deck.run.dir + "/checkpoints"))
      if (!entry.is_symlink()) names.insert(entry.path().filename().string().substr(0, 13));
  return test::world().broadcast(fmt::format("{}", fmt::join(names, " ")), 0);
}

/// Behind an update that ruins parameters all steps are bad, and each has the ruined state.
TEST(Skip, SavesOfARowOfBadStepsPushNoGoodOneOut) {
  const std::vector<std::string> sets{"optimizer.nonfinite=skip", "optimizer.nonfinite_limit=3",
                                      "checkpoint.every=3", "checkpoint.keep=1", "run.steps=9"};
  const Deck deck = deck_with(sets, test::world());
  auto trainer = trainer_of(deck, test::world(), {2, 3, 5, 6, 7, 8});
  EXPECT_THROW(trainer->run(), Error);
  EXPECT_EQ(trainer->step(), 9);
  trainer.reset();
  // Steps 1, 2 and 5 are good. The save that is due at step 3 is made at step 5, and that of step 6 is not.
  EXPECT_EQ(checkpoints_of(deck), "step-00000005");
}

/// The last save of a run, which is made whatever the last step was, leaves the earlier ones.
TEST(Skip, TheLastSaveOfARowOfBadStepsLeavesTheEarlierOnes) {
  const Deck deck = deck_with(
      {"optimizer.nonfinite=skip", "checkpoint.every=2", "checkpoint.keep=1", "run.steps=4"}, test::world());
  auto trainer = trainer_of(deck, test::world(), {3});
  EXPECT_EQ(trainer->run(), train::Outcome::finished);
  trainer.reset();
  EXPECT_EQ(checkpoints_of(deck), "step-00000002 step-00000004");
}

/// The training steps that metrics.jsonl has, in order, and the tokens of all of them.
struct Kept {
  std::vector<std::int64_t> steps;
  std::int64_t tokens = 0;
};
Kept kept_steps(const Deck& deck) {
  const auto number = [](const std::string& line, std::string_view key) {
    return std::stol(line.substr(line.find(key) + key.size()));
  };
  Kept kept;
  std::ifstream in(deck.run.dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    if (line.find("\"kind\": \"train\"") == std::string::npos) continue;
    kept.steps.push_back(number(line, "\"step\": "));
    kept.tokens += number(line, "\"tokens\": ");
    EXPECT_EQ(line.find("\"nan\""), std::string::npos) << line;
  }
  return kept;
}

/// Rank 0 checks that the metrics have each of the eight steps once, and that the last checkpoint counts
/// their tokens.
void expect_eight_steps_saved(const Deck& deck) {
  if (test::world().rank() != 0) return;
  const Kept kept = kept_steps(deck);
  EXPECT_EQ(kept.steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(ckpt::load_run_state(deck.run.dir + "/checkpoints/step-00000008").tokens, kept.tokens);
}

TEST(RollBack, IsARunWithoutTheDataThatWentWrong) {
  // Steps 1 to 4 see data 0 to 3, and the run goes back to step 2. Its next steps see 4 and 5, steps 5 and 6
  // see 6 and 7, and the run goes back to step 4.
  const std::vector<std::int64_t> good{0, 1, 4, 5, 8, 9, 10, 11};
  std::vector<std::string> layouts = test::pipe_meshes();
  for (const char* mode : {"ddp", "fsdp"}) layouts.push_back(std::string("parallel.mode=") + mode);
  for (const std::string& set : layouts) {
    SCOPED_TRACE(set);
    const Deck deck = deck_with({set, "optimizer.nonfinite=rollback", "optimizer.nonfinite_limit=1",
                                 "run.steps=8", "checkpoint.every=2", "checkpoint.keep=9"},
                                test::world());
    auto rolled = trainer_of(deck, test::world(), {3, 7});
    EXPECT_EQ(rolled->run(), train::Outcome::finished);
    const std::uint64_t expected = rolled->state().hash();
    rolled.reset();  // only one run may hold the directory
    const auto direct = trainer_of(deck_with({set, "run.steps=8"}, test::world()), test::world(), {}, good);
    EXPECT_EQ(direct->run(), train::Outcome::finished);
    EXPECT_EQ(direct->state().hash(), expected);
    expect_eight_steps_saved(deck);
    // A checkpoint says where its data go on.
    Deck again = deck;
    again.checkpoint.resume = deck.run.dir + "/checkpoints/step-00000006";
    const auto resumed = trainer_of(again, test::world(), {3, 7});
    EXPECT_EQ(resumed->run(), train::Outcome::finished);
    EXPECT_EQ(resumed->state().hash(), expected);
    expect_eight_steps_saved(deck);
  }
}

TEST(RollBack, WithoutACheckpointStartsOver) {
  const Deck deck = deck_with({"optimizer.nonfinite=rollback", "run.steps=4"}, test::world());
  const auto rolled = trainer_of(deck, test::world(), {1});  // the initial weights are all finite
  EXPECT_EQ(rolled->run(), train::Outcome::finished);
  expect_in_log(deck, "back to step 0, the initial weights; it goes on with sample " +
                          std::to_string(2 * deck.data.global_batch));
  const Deck plain = deck_with({"run.steps=4"}, test::world());
  train::Trainer direct(
      plain, test::world(),
      std::make_unique<Batches>(plain, std::set<std::int64_t>{}, std::vector<std::int64_t>{2, 3, 4, 5}));
  EXPECT_EQ(direct.run(), train::Outcome::finished);
  EXPECT_EQ(rolled->state().hash(), direct.state().hash());
}

/// The run whose `latest` this one began with goes on meanwhile, and moves it.
TEST(RollBack, GoesBackToWhereItBeganWhereverTheLinkLeadsNow) {
  const Deck other = deck_with({"run.steps=4", "checkpoint.every=2"}, test::world());
  EXPECT_EQ(trainer_of(other, test::world(), {})->run(), train::Outcome::finished);
  const std::string checkpoints = other.run.dir + "/checkpoints/", latest = checkpoints + "latest";
  const auto point_to = [&](const char* step) {
    if (test::world().rank() == 0) {
      std::filesystem::remove(latest);
      std::filesystem::create_directory_symlink(step, latest);
    }
    test::world().barrier();
  };
  for (const std::string key : {"checkpoint.resume=", "model.init="}) {
    SCOPED_TRACE(key);
    const auto hash_of_run_from = [&](const std::string& start) {
      point_to("step-00000002");
      const Deck deck =
          deck_with({key + start, "optimizer.nonfinite=rollback", "run.steps=6"}, test::world());
      const auto trainer = trainer_of(deck, test::world(), {3});
      point_to("step-00000004");
      EXPECT_EQ(trainer->run(), train::Outcome::finished);
      expect_in_log(deck, key == "model.init=" ? "back to step 0, the initial weights"
                                               : "back to step 2, " + checkpoints + "step-00000002");
      return trainer->state().hash();
    };
    EXPECT_EQ(hash_of_run_from(latest), hash_of_run_from(checkpoints + "step-00000002"));
  }
}

TEST(BadNumbers, MoreThanTheLimitInARowStop) {
  for (const char* policy : {"skip", "rollback"}) {
    SCOPED_TRACE(policy);
    const Deck deck = deck_with(
        {std::string("optimizer.nonfinite=") + policy, "optimizer.nonfinite_limit=2", "checkpoint.every=2"},
        test::world());
    const auto trainer = trainer_of(deck, test::world(), {0, 2, 3, 4, 5, 6});
    if (policy == std::string("rollback")) trainer->train_step();  // there is nothing to go back to
    EXPECT_THROW(trainer->run(), Error);
    EXPECT_EQ(trainer->step(), policy == std::string("skip") ? 5 : 3);
  }
}

/// Runs one step that is bad, and returns what is said about it.
void expect_located(const std::vector<std::string>& sets, const std::string& text,
                    const std::function<void(train::Trainer&)>& change) {
  SCOPED_TRACE(testing::PrintToString(sets));
  std::vector<std::string> all{"debug.nan=locate", "optimizer.warmup=0", "run.steps=1",
                               "optimizer.nonfinite=skip"};
  all.insert(all.end(), sets.begin(), sets.end());
  const Deck deck = deck_with(all, test::world());
  train::Trainer trainer(deck, test::world(), std::make_unique<Batches>(deck, std::set<std::int64_t>{0}));
  change(trainer);
  trainer.state().publish();
  const std::uint64_t before = trainer.state().hash();
  EXPECT_EQ(trainer.run(), train::Outcome::finished);
  EXPECT_EQ(trainer.state().hash(), before);
  expect_in_log(deck, text);
}

/// The layouts over the ranks of this program: all modes, and all pipes with all schedules.
std::vector<std::vector<std::string>> layouts() {
  std::vector<std::vector<std::string>> list;
  for (const char* mode : all_modes) list.push_back({std::string("parallel.mode=") + mode});
  if (const int ranks = test::world().size(); ranks % 2 == 0)
    list.push_back({fmt::format("parallel.mesh={{ pipe = {}, tensor = 2 }}", ranks / 2)});
  for (const std::string& mesh : test::pipe_meshes()) {
    for (const char* schedule : {"gpipe", "1f1b", "zb_h1"})
      list.push_back({mesh, std::string("pipeline.schedule=") + schedule});
    for (const char* schedule : {"interleaved", "zbv"})
      list.push_back({mesh, std::string("pipeline.schedule=") + schedule, "pipeline.chunks=2",
                      "model.layers=" + std::to_string(test::layers_of_pipe())});
  }
  return list;
}

TEST(Locate, NamesAParameter) {
  const auto change = [](train::Trainer& trainer) {
    std::vector<float> weights(std::size_t{176} * 64, 0.01F);
    weights[5000] = std::numeric_limits<float>::quiet_NaN();
    trainer.state().set_parameter("layers.1.ffn.w1", weights);
  };
  for (const auto& layout : layouts())
    expect_located(layout, "step 1: the step starts from layers.1.ffn.w1 (master) with 1 NaN and 0 Inf in ",
                   change);
  expect_located({"precision.params=bf16", "log.trace_step=1"}, "from layers.1.ffn.w1 (", change);
  for (const std::string& mesh : test::pipe_meshes())
    expect_located({mesh, "model.tie_embeddings=true"}, "from layers.1.ffn.w1 (", change);
}

TEST(Locate, NamesTheModuleThatOverflows) {
  const auto change = [](train::Trainer& trainer) {
    const std::vector<float> weights(std::size_t{176} * 64, 1e25F);
    trainer.state().set_parameter("layers.1.ffn.w1", weights);
    trainer.state().set_parameter("layers.1.ffn.w3", weights);
  };
  for (const auto& layout : layouts())
    expect_located(
        layout, "is layers.1.ffn.act, made by swiglu in forward of layers.1.ffn (round 0), with 0 NaN and ",
        change);
}

std::vector<float> waves(std::size_t n, float size) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = size * std::sin(static_cast<float>(i));
  return values;
}

/// Large gradients come from the head, and meet large weights behind small values in the feed-forward of
/// `layer`: its backward overflows in every round, and with it that of all layers before it.
void make_backward_overflow(runtime::ModelState& state, const std::string& layer) {
  state.set_parameter("head.norm", std::vector<float>(64, 1e15F));
  state.set_parameter("head.weight", waves(std::size_t{300} * 64, 1e15F));
  state.set_parameter(layer + ".ffn.w1", waves(std::size_t{176} * 64, 1e-20F));
  state.set_parameter(layer + ".ffn.w2", waves(std::size_t{64} * 176, 1e20F));
}

/// The forward of the rare token overflows in layer 0. No other token has anything in the first dimension,
/// which alone meets large weights.
void make_forward_of_rare_token_overflow(runtime::ModelState& state) {
  std::vector<float> table = embedding_with(0), weights = waves(std::size_t{176} * 64, 0.02F);
  for (std::size_t i = 0; i < table.size(); i += 64) table[i] = 0;
  table[std::size_t{rare} * 64] = 1;
  for (std::size_t i = 0; i < weights.size(); i += 64) weights[i] = 1e25F;
  state.set_parameter("embed.table", table);
  state.set_parameter("layers.0.attn.wo", std::vector<float>(std::size_t{64} * 64, 0));
  state.set_parameter("layers.0.ffn.w1", weights);
  state.set_parameter("layers.0.ffn.w3", weights);
}

/// A backward goes through the stages the other way round, and what a stage receives is not its own.
TEST(Locate, NamesTheModuleWhoseBackwardOverflows) {
  for (const std::string layer : {"layers.0", "layers.1"})
    for (const auto& layout : layouts())
      expect_located(
          layout,
          "is " + layer + ".ffn.act.grad, made by matmul in backward of " + layer + ".ffn (round 0), with ",
          [&](train::Trainer& trainer) { make_backward_overflow(trainer.state(), layer); });
}

/// A pipe computes the forward of a later round before the backward of an earlier one, in which one rank
/// would see bad numbers first.
TEST(Locate, NamesTheFirstInTheProgramOfOneRank) {
  for (const auto& layout : layouts()) {
    expect_located(layout, "is layers.0.ffn.act#",
                   [](train::Trainer& trainer) { make_forward_of_rare_token_overflow(trainer.state()); });
    expect_located(layout, "made by matmul in backward of layers.1.ffn (round 0), with ",
                   [](train::Trainer& trainer) {
                     make_forward_of_rare_token_overflow(trainer.state());
                     make_backward_overflow(trainer.state(), "layers.1");
                   });
  }
}

/// Where a device erred, the step has good numbers when it runs again, and its update is left out all the
/// same. Here the step was good at once, and the metrics alone are bad.
TEST(Locate, AStepThatIsGoodWhenItRunsAgainChangesNothing) {
  std::vector<std::vector<std::string>> layouts;
  for (const char* mode : all_modes)
    for (const char* params : {"f32", "bf16"})
      layouts.push_back({std::string("parallel.mode=") + mode, std::string("precision.params=") + params});
  for (const std::string& mesh : test::pipe_meshes()) layouts.push_back({mesh});
  for (std::vector<std::string> sets : layouts) {
    SCOPED_TRACE(testing::PrintToString(sets));
    sets.insert(sets.end(), {"debug.nan=locate", "optimizer.warmup=0", "optimizer.nonfinite=skip"});
    const Deck deck = deck_with(sets, test::world());
    train::Trainer trainer(deck, test::world(), std::make_unique<Batches>(deck, std::set<std::int64_t>{}));
    const std::uint64_t start = trainer.state().hash();
    report::StepMetrics metrics = trainer.train_step();
    EXPECT_TRUE(metrics.updated);
    const std::uint64_t before = trainer.state().hash();
    EXPECT_NE(before, start) << "an update would be seen";
    metrics.updated = false;
    metrics.loss = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(trainer.goes_on_after(metrics));
    EXPECT_EQ(trainer.state().hash(), before);
    expect_in_log(deck, "step 1: all values of the step are finite when it runs again");
  }
}

void expect_nothing_located(const std::vector<std::string>& sets) {
  SCOPED_TRACE(testing::PrintToString(sets));
  std::vector<std::string> all{"debug.nan=locate", "run.steps=2", "optimizer.nonfinite=skip"};
  all.insert(all.end(), sets.begin(), sets.end());
  const Deck deck = deck_with(all, test::world());
  train::Trainer trainer(deck, test::world(), without_targets(deck));
  EXPECT_EQ(trainer.run(), train::Outcome::finished);
  expect_in_log(deck, "step 2: the first value that is not finite is clip.scale, made by clip_scale");
}

/// Nothing else is bad in such a step: no layout has a value that only looks bad.
TEST(Locate, SeesNothingInValuesThatAreFine) {
  using Sets = std::vector<std::string>;
  for (const Sets& sets :
       {Sets{"parallel.mode=ddp"}, Sets{"parallel.mode=zero1", "precision.params=bf16"},
        Sets{"parallel.mode=zero2", "schedule.disable=share"}, Sets{"schedule.recompute=full"},
        Sets{"precision.params=bf16", "precision.grad_wire=bf16", "schedule.disable=share"},
        Sets{"model.tie_embeddings=true", "schedule.bucketing=manual"}, Sets{"schedule.accumulate=once"}})
    expect_nothing_located(sets);
  for (const std::string& mesh : test::pipe_meshes())
    for (const char* schedule : {"1f1b", "zb_h1"})
      expect_nothing_located({mesh, std::string("pipeline.schedule=") + schedule});
}

}  // namespace
}  // namespace weft
