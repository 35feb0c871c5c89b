#include "train/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.hpp"

namespace weft::train {
namespace {

/// The index of the largest logit; of equal ones, the first.
std::size_t largest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity())
      throw Error(ExitCode::failure,
                  fmt::format("logit {} is {} (the model's state is not finite); sample an earlier "
                              "checkpoint",
                              i, logits[i]));
    if (logits[i] > logits[best]) best = i;
  }
  if (logits.empty() || std::isinf(logits[best]))
    throw Error(ExitCode::failure,
                "no token can be sampled (every logit is -inf, or there is none); check the model");
  return best;
}

/// The ids that top-k leaves, sorted by falling logit when `sorted` says so.
std::vector<std::uint32_t> candidates(std::span<const float> logits, std::int64_t top_k, bool sorted) {
  std::vector<std::uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (top_k > 0 && static_cast<std::size_t>(top_k) < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + top_k, ids.end(), before);
    ids.resize(static_cast<std::size_t>(top_k));
  }
  if (sorted) std::sort(ids.begin(), ids.end(), before);
  return ids;
}

}  // namespace

void validate(const SamplingOptions& options) {
  WEFT_VALIDATE(options.temperature >= 0 && std::isfinite(options.temperature),
                "--temperature is {} (it must be finite and not negative); use 0 for the likeliest token, 1 "
                "for the model's distribution",
                options.temperature);
  WEFT_VALIDATE(options.top_k >= 0, "--top-k is {} (it counts tokens); use 0 to keep all tokens",
                options.top_k);
  WEFT_VALIDATE(options.top_p > 0 && options.top_p <= 1,
                "--top-p is {} (it must be above 0 and at most 1); use 1 to keep all tokens", options.top_p);
}

std::int64_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          const RandomStream& stream, std::uint64_t position) {
  validate(options);
  const std::size_t best = largest(logits);
  if (options.temperature == 0) return static_cast<std::int64_t>(best);

  const bool nucleus = options.top_p < 1;
  const auto ids = candidates(logits, options.top_k, nucleus || options.top_k > 0);
  // Sums of exp((logit - largest) / temperature): each term is at most 1, so nothing overflows.
  std::vector<double> cumulative(ids.size());
  double sum = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    sum += std::exp((static_cast<double>(logits[ids[i]]) - static_cast<double>(logits[best])) /
                    options.temperature);
    cumulative[i] = sum;
  }
  if (nucleus) {
    const auto reaches = std::lower_bound(cumulative.begin(), cumulative.end(), options.top_p * sum);
    cumulative.resize(
        std::min(static_cast<std::size_t>(reaches - cumulative.begin()) + 1, cumulative.size()));
  }
  // The uniform is below 1, so the draw is below the last sum; upper_bound skips tokens of probability zero.
  const double draw = stream.uniform(position) * cumulative.back();
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), draw);
  return ids[static_cast<std::size_t>(chosen - cumulative.begin())];
}

}  // namespace weft::train
