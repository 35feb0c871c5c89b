// Compares the whole model with the Llama of Hugging Face's transformers: logits and gradients for random
// weights.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/golden.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"
#include "unit/model/one_rank.hpp"

namespace weft {
namespace {

using test::GoldenFile;
using test::OneRank;

/// The tolerance, relative to the norm of each tensor. Two PyTorch implementations differ by 4e-7 of the
/// largest logit.
constexpr double tolerance = 2e-6;

const GoldenFile& file() {
  static const GoldenFile golden(WEFT_SOURCE_DIR "/tests/golden/transformers.h5");
  return golden;
}

class Transformers : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path(const std::string& name) const { return std::string(GetParam()) + "/" + name; }
  double attr(const std::string& name) const { return file().attr(GetParam(), name); }

  Deck deck(const std::vector<std::string>& changes) const {
    std::vector<std::string> sets;
    for (const char* key : {"dim", "layers", "heads", "kv_heads", "ffn", "vocab", "rope_theta", "norm_eps"})
      sets.push_back(fmt::format("model.{}={}", key, attr(key)));
    sets.push_back(fmt::format("model.tie_embeddings={}", attr("tied") != 0));
    if (file().has_attr(GetParam(), "rope_scaling_factor")) {
      for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"})
        sets.push_back(
            fmt::format("model.rope_scaling.{}={}", key, attr(std::string("rope_scaling_") + key)));
      sets.push_back(
          fmt::format("model.rope_scaling.original_max_position={}", attr("rope_scaling_original_seq")));
    }
    sets.push_back(fmt::format("data.seq={}", attr("seq")));
    for (const char* key : {"batch", "global_batch"})
      sets.push_back(fmt::format("data.{}={}", key, attr("batch")));
    sets.insert(sets.end(), changes.begin(), changes.end());
    return test::small_deck(sets);
  }

  OneRank model(OneRank::Program program, const std::vector<std::string>& changes = {}) const {
    return OneRank(deck(changes), program);
  }

  void load(OneRank& model) const {
    for (const std::string& name : file().children(path("weights")))
      model.set_parameter(name, file().f32(path("weights/" + name)));
    model.publish();
  }

  /// The columns [first, first + seq) of the golden tokens [rows, seq + 1].
  std::vector<std::int32_t> tokens(std::int64_t first) const {
    const std::vector<std::int32_t> all = file().i32(path("tokens"));
    const Shape shape = file().shape(path("tokens"));
    std::vector<std::int32_t> columns;
    for (std::int64_t row = 0; row < shape[0]; ++row)
      for (std::int64_t t = 0; t < shape[1] - 1; ++t)
        columns.push_back(all[static_cast<std::size_t>(row * shape[1] + first + t)]);
    return columns;
  }
};

/// The Euclidean |actual * scale - expected| / |expected|.
double distance(const std::vector<float>& actual, const std::vector<float>& expected, double scale = 1) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(actual[i] * scale - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

/// The logits of all rows, by one run of the logits plan for each row.
std::vector<float> all_logits(OneRank& model, const std::vector<std::int32_t>& tokens, std::size_t seq) {
  std::vector<float> logits;
  for (std::size_t row = 0; row < tokens.size() / seq; ++row) {
    model.run(std::span(tokens).subspan(row * seq, seq));
    const std::vector<float> of_row = model.logits();
    logits.insert(logits.end(), of_row.begin(), of_row.end());
  }
  return logits;
}

TEST_P(Transformers, Logits) {
  OneRank weft = model(OneRank::Program::logits);
  load(weft);
  const auto seq = static_cast<std::size_t>(attr("seq"));
  EXPECT_LT(distance(all_logits(weft, tokens(0), seq), file().f32(path("logits"))), tolerance);
}

/// The gradients are scaled, because transformers differentiates the mean loss, and Weft the sum.
TEST_P(Transformers, Gradients) {
  OneRank weft = model(OneRank::Program::training);
  load(weft);
  const std::vector<std::int32_t> inputs = tokens(0);
  weft.run(inputs, tokens(1));
  EXPECT_NEAR(weft.report()[2], attr("loss"), 1e-6 * attr("loss"));
  EXPECT_EQ(weft.report()[3], static_cast<float>(inputs.size()));
  std::size_t compared = 0;
  for (const Unit& unit : weft.units())
    for (const Parameter& p : unit.parameters) {
      const double d = distance(weft.gradient(unit, p), file().f32(path("gradients/" + p.path)),
                                1.0 / static_cast<double>(inputs.size()));
      EXPECT_LT(d, tolerance) << p.path;
      ++compared;
    }
  EXPECT_EQ(compared, file().children(path("gradients")).size());
}

/// Shows what the tolerance is worth: small mistakes in the model lie far outside of it.
TEST_P(Transformers, MistakesShow) {
  std::vector<std::string> mistakes = {"model.norm_eps=2e-5", "model.rope_theta=20000"};
  if (file().has_attr(GetParam(), "rope_scaling_factor"))
    mistakes.insert(mistakes.end(),
                    {"model.rope_scaling.factor=7", "model.rope_scaling.low_freq_factor=1.5",
                     "model.rope_scaling.high_freq_factor=3", "model.rope_scaling.original_max_position=60"});
  const auto seq = static_cast<std::size_t>(attr("seq"));
  for (const std::string& mistake : mistakes) {
    OneRank weft = model(OneRank::Program::logits, {mistake});
    load(weft);
    EXPECT_GT(distance(all_logits(weft, tokens(0), seq), file().f32(path("logits"))), 3 * tolerance)
        << mistake;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Transformers, ::testing::Values("gqa", "scaled_tied"));

}  // namespace
}  // namespace weft
