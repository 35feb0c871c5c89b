// Whole loss curves against PyTorch's: the same initial weights, tokens and hyperparameters
// (tests/golden/make_curve.py).
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <cmath>

#include "support/golden.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"
#include "train/trainer.hpp"

namespace weft {
namespace {

using test::GoldenFile;

const GoldenFile& file() {
  static const GoldenFile golden(std::string(WEFT_SOURCE_DIR) + "/tests/golden/curve.h5");
  return golden;
}

/// PyTorch's tokens: [steps, sequences, seq + 1].
class GoldenBatches : public data::BatchSource {
 public:
  GoldenBatches(const std::string& group, std::int64_t batch)
      : tokens_(file().i32(group + "/tokens")), shape_(file().shape(group + "/tokens")), batch_(batch) {}

  void fill(std::int64_t step, std::int64_t microbatch, std::int32_t* tokens, std::int32_t* targets,
            std::int32_t* positions) const override {
    const std::int64_t seq = shape_[2] - 1;
    for (std::int64_t row = 0; row < batch_; ++row) {
      const std::int32_t* from = tokens_.data() + (step * shape_[1] + microbatch * batch_ + row) * shape_[2];
      for (std::int64_t t = 0; t < seq; ++t) {
        tokens[row * seq + t] = from[t];
        targets[row * seq + t] = from[t + 1];
        positions[row * seq + t] = static_cast<std::int32_t>(t);
      }
    }
  }

 private:
  std::vector<std::int32_t> tokens_;
  Shape shape_;
  std::int64_t batch_;
};

std::vector<std::string> settings(const std::string& group) {
  const auto attr = [&](const char* name) { return file().attr(group, name); };
  std::vector<std::string> sets;
  const auto set = [&](const std::string& key, double value) {
    sets.push_back(fmt::format("{}={}", key, value));
  };
  for (const char* key : {"dim", "layers", "heads", "kv_heads", "ffn", "vocab", "rope_theta", "norm_eps"})
    set(fmt::format("model.{}", key), attr(key));
  const Shape tokens = file().shape(group + "/tokens");
  set("run.steps", static_cast<double>(tokens[0]));
  set("data.global_batch", static_cast<double>(tokens[1]));
  set("data.batch", static_cast<double>(tokens[1]));
  set("data.seq", static_cast<double>(tokens[2] - 1));
  for (const char* key : {"lr", "beta1", "beta2", "eps", "weight_decay", "clip", "warmup"})
    set(fmt::format("optimizer.{}", key), attr(key));
  return sets;
}

/// Relative distances of a curve from PyTorch's fp32 curve.
struct Distance {
  double loss = 0, norm = 0;          ///< the maximum over the curve
  double loss_rms = 0, norm_rms = 0;  ///< the root mean square over the curve
  double parameters = 0;              ///< of the final tensors, the worst
};

struct Points {
  std::vector<double> losses, norms;
};
Points torch(const std::string& group, const std::string& variant) {
  return {file().f64(group + "/" + variant + "/loss"), file().f64(group + "/" + variant + "/grad_norm")};
}

Distance distance(const Points& curve, const Points& reference) {
  const auto measure = [](const std::vector<double>& a, const std::vector<double>& b, double& largest,
                          double& rms) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      const double d = std::abs(a[i] - b[i]) / std::abs(b[i]);
      largest = std::max(largest, d);
      rms += d * d / static_cast<double>(b.size());
    }
    rms = std::sqrt(rms);
  };
  Distance d;
  measure(curve.losses, reference.losses, d.loss, d.loss_rms);
  measure(curve.norms, reference.norms, d.norm, d.norm_rms);
  return d;
}

/// Trains as PyTorch did, with `changes` to the deck.
Distance distance(const std::string& group, std::vector<std::string> changes) {
  std::vector<std::string> sets = settings(group);
  sets.insert(sets.end(), changes.begin(), changes.end());
  Deck deck = test::small_deck(sets);
  const auto world = comm::make_self_world();
  train::Trainer trainer(deck, *world, std::make_unique<GoldenBatches>(group, deck.data.batch));
  for (const std::string& path : file().children(group + "/initial"))
    trainer.state().set_parameter(path, file().f32(group + "/initial/" + path));
  trainer.state().publish();
  const Points reference = torch(group, "f32");
  Points curve;
  for (std::size_t step = 0; step < reference.losses.size(); ++step) {
    const train::StepMetrics m = trainer.train_step();
    curve.losses.push_back(m.loss);
    curve.norms.push_back(*m.grad_norm);
  }
  Distance d = distance(curve, reference);
  for (const std::string& path : file().children(group + "/final")) {
    const std::vector<float> expected = file().f32(group + "/final/" + path),
                             actual = trainer.state().parameter(path);
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
      norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    d.parameters = std::max(d.parameters, std::sqrt(difference / norm));
  }
  return d;
}

std::vector<std::string> extra(const std::string& group) {
  if (group != "tied") return {};
  const auto attr = [&](const char* name) { return file().attr(group, name); };
  return {"model.tie_embeddings=true",
          fmt::format("model.rope_scaling.factor={}", attr("rope_scaling_factor")),
          fmt::format("model.rope_scaling.low_freq_factor={}", attr("rope_scaling_low_freq_factor")),
          fmt::format("model.rope_scaling.high_freq_factor={}", attr("rope_scaling_high_freq_factor")),
          fmt::format("model.rope_scaling.original_max_position={}", attr("rope_scaling_original_seq"))};
}

class Curve : public ::testing::TestWithParam<const char*> {};

TEST_P(Curve, Fp32) {
  const std::string group = GetParam();
  const Distance d = distance(group, extra(group));
  EXPECT_LT(d.loss, 1e-6);
  EXPECT_LT(d.norm, 1e-6);
  EXPECT_LT(d.parameters, 1e-5);
}

TEST_P(Curve, Fp32InMicrobatches) {
  const std::string group = GetParam();
  std::vector<std::string> sets = extra(group);
  sets.push_back("data.batch=1");
  const Distance d = distance(group, sets);
  EXPECT_LT(d.loss, 1e-6);
  EXPECT_LT(d.norm, 1e-6);
  EXPECT_LT(d.parameters, 1e-5);
}

/// As close to PyTorch's fp32 curve as PyTorch's bf16 is. Rounding noise is a draw: the maximum of twenty
/// points of one run differs by a third between two equally good runs (PyTorch's with other microbatches,
/// Weft's with other batches), so it is held against the larger of PyTorch's two and that third; the root
/// mean square, which hardly varies, has a tenth.
TEST_P(Curve, Bf16) {
  const std::string group = GetParam();
  std::vector<std::string> sets = extra(group);
  sets.push_back("precision.params=bf16");
  const Distance weft = distance(group, sets);
  const Distance one = distance(torch(group, "bf16"), torch(group, "f32"));
  const Distance two = distance(torch(group, "bf16_microbatches"), torch(group, "f32"));
  EXPECT_LE(weft.loss, 1.33 * std::max(one.loss, two.loss));
  EXPECT_LE(weft.norm, 1.33 * std::max(one.norm, two.norm));
  EXPECT_LE(weft.loss_rms, 1.1 * std::max(one.loss_rms, two.loss_rms));
  EXPECT_LE(weft.norm_rms, 1.1 * std::max(one.norm_rms, two.norm_rms));
}

/// What the tolerances are worth: each mistake lies far outside of them, in Weft as in PyTorch.
TEST_P(Curve, MistakesShow) {
  const std::string group = GetParam();
  for (const char* mistake : {"optimizer.eps=1e-8", "model.norm_eps=1e-6", "optimizer.weight_decay=0",
                              "optimizer.clip=0", "model.rope_theta=20000"}) {
    std::vector<std::string> sets = extra(group);
    sets.push_back(mistake);
    const Distance d = distance(group, sets);
    EXPECT_GT(std::max({d.loss / 1e-6, d.norm / 1e-6, d.parameters / 1e-5}), 3) << mistake;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Curve, ::testing::Values("untied", "tied"));

}  // namespace
}  // namespace weft
