#include "train/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/check.hpp"

namespace weft::train {
namespace {

constexpr int draws = 200'000;

std::vector<double> frequencies(const std::vector<float>& logits, const SamplingOptions& options) {
  const RandomStream stream(7, "sample");
  std::vector<double> f(logits.size());
  for (int i = 0; i < draws; ++i)
    f[static_cast<std::size_t>(sample_token(logits, options, stream, static_cast<std::uint64_t>(i)))] +=
        1.0 / draws;
  return f;
}

/// Compares frequencies with `p` by Pearson's chi-squared; tokens of probability 0 must not occur. With 4
/// degrees of freedom, 27.9 is exceeded by chance once in 1e5; the seed is fixed.
void expect_distribution(const std::vector<double>& f, const std::vector<double>& p) {
  double chi2 = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0)
      EXPECT_EQ(f[i], 0) << "token " << i;
    else
      chi2 += draws * (f[i] - p[i]) * (f[i] - p[i]) / p[i];
  }
  EXPECT_LT(chi2, 27.9);
}

// The softmax of these logits is {0.1, 0.4, 0.05, 0.25, 0.2}.
const std::vector<float> logits{std::log(0.1f), std::log(0.4f), std::log(0.05f), std::log(0.25f),
                                std::log(0.2f)};

TEST(Sampling, DrawsFromTheSoftmax) {
  expect_distribution(frequencies(logits, {}), {0.1, 0.4, 0.05, 0.25, 0.2});
}

TEST(Sampling, TemperatureHalfSquaresTheProbabilities) {
  // The probabilities are {1, 16, 0.25, 6.25, 4} / 27.5.
  expect_distribution(frequencies(logits, {.temperature = 0.5}),
                      {1 / 27.5, 16 / 27.5, 0.25 / 27.5, 6.25 / 27.5, 4 / 27.5});
}

TEST(Sampling, TopKKeepsTheLargest) {
  expect_distribution(frequencies(logits, {.top_k = 2}), {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0});
  expect_distribution(frequencies(logits, {.top_k = 99}), {0.1, 0.4, 0.05, 0.25, 0.2});
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  // One token, with 0.4, does not reach 0.6.
  expect_distribution(frequencies(logits, {.top_p = 0.6}), {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0});
  expect_distribution(frequencies(logits, {.top_p = 0.7}), {0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85});
  expect_distribution(frequencies(logits, {.top_p = 1e-9}), {0, 1, 0, 0, 0});
}

TEST(Sampling, TopPSeesWhatTopKLeft) {
  // Of {0.4, 0.25, 0.2} / 0.85, the first two hold 0.76.
  expect_distribution(frequencies(logits, {.top_k = 3, .top_p = 0.75}), {0, 0.4 / 0.65, 0, 0.25 / 0.65, 0});
}

TEST(Sampling, GreedyTakesTheFirstOfTheLargest) {
  const std::vector<float> ties{1, 5, 2, 5};
  EXPECT_EQ(sample_token(ties, {.temperature = 0}, RandomStream(1, "sample"), 0), 1);
  EXPECT_EQ(sample_token(ties, {.top_k = 1}, RandomStream(1, "sample"), 0), 1);
}

TEST(Sampling, SameSeedSameText) {
  const RandomStream a(3, "sample"), b(3, "sample"), c(4, "sample");
  int different = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sample_token(logits, {}, a, i), sample_token(logits, {}, b, i));
    different += sample_token(logits, {}, a, i) != sample_token(logits, {}, c, i);
  }
  EXPECT_GT(different, 20);
}

TEST(Sampling, LargeLogitsDoNotOverflow) {
  const std::vector<float> large{3.0e38f, -3.0e38f, 3.0e38f};
  expect_distribution(frequencies(large, {.temperature = 0.01}), {0.5, 0, 0.5});
}

TEST(Sampling, MaskedTokensAreNeverDrawn) {
  constexpr float out = -std::numeric_limits<float>::infinity();
  expect_distribution(frequencies({out, 0, out, 0}, {}), {0, 0.5, 0, 0.5});
}

TEST(Sampling, RefusesBrokenLogitsAndOptions) {
  const RandomStream stream(1, "sample");
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const auto& broken : {std::vector<float>{0, NAN}, std::vector<float>{inf, 0},
                             std::vector<float>{-inf, -inf}, std::vector<float>{}})
    EXPECT_THROW(sample_token(broken, {}, stream, 0), Error);
  const auto told = [](const SamplingOptions& options) -> std::string {
    try {
      validate(options);
    } catch (const Error& e) {
      return e.code() == ExitCode::bad_input ? e.what() : "another exit code";
    }
    return "";
  };
  const std::string temperature =
      " (it must be finite and not negative); use 0 for the likeliest token, 1 for the model's distribution";
  EXPECT_EQ(told({.temperature = -1}), "--temperature is -1" + temperature);
  EXPECT_EQ(told({.temperature = NAN}), "--temperature is nan" + temperature);
  EXPECT_EQ(told({.top_k = -1}), "--top-k is -1 (it counts tokens); use 0 to keep all tokens");
  for (const auto& [top_p, text] : {std::pair(0.0, "0"), std::pair(1.5, "1.5")})
    EXPECT_EQ(told({.top_p = top_p}), std::string("--top-p is ") + text +
                                          " (it must be above 0 and at most 1); use 1 to keep all tokens");
  EXPECT_EQ(told({}), "");
}

}  // namespace
}  // namespace weft::train
