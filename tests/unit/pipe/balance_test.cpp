// Tests how layers are dealt out to stages: against all cuts of small models, and on Llama 3's 405B.
#include "pipe/balance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

#include "base/check.hpp"

namespace weft::pipe::test {
namespace {

/// What the slowest and the largest stage take.
std::pair<double, double> largest(const std::vector<LayerCost>& layers, const std::vector<int>& lengths) {
  std::pair<double, double> most{0, 0};
  std::size_t at = 0;
  for (const int length : lengths) {
    LayerCost sum;
    for (int i = 0; i < length; ++i, ++at) {
      sum.seconds += layers[at].seconds;
      sum.bytes += layers[at].bytes;
    }
    most = {std::max(most.first, sum.seconds), std::max(most.second, sum.bytes)};
  }
  EXPECT_EQ(at, layers.size());
  return most;
}

void for_each_cut(int layers, int stages, std::vector<int>& lengths,
                  const std::function<void(const std::vector<int>&)>& visit) {
  if (stages == 1) {
    lengths.push_back(layers);
    visit(lengths);
    lengths.pop_back();
    return;
  }
  for (int first = 1; first <= layers - stages + 1; ++first) {
    lengths.push_back(first);
    for_each_cut(layers - first, stages - 1, lengths, visit);
    lengths.pop_back();
  }
}

TEST(PipeBalance, NoOtherCutIsBetter) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int count = 1 + static_cast<int>(random() % 9), stages = 1 + static_cast<int>(random() % count);
    std::vector<LayerCost> layers;
    for (int i = 0; i < count; ++i)
      layers.push_back({static_cast<double>(random() % 6), static_cast<double>(random() % 6)});
    const std::vector<int> chosen = balance(layers, stages);
    ASSERT_EQ(chosen.size(), static_cast<std::size_t>(stages));
    EXPECT_GE(*std::min_element(chosen.begin(), chosen.end()), 1);
    const auto ours = largest(layers, chosen);
    std::vector<int> lengths;
    for_each_cut(count, stages, lengths, [&](const std::vector<int>& cut) {
      EXPECT_LE(ours, largest(layers, cut)) << "round " << round;
    });
  }
}

/// What the slowest rank of a folded pipe takes, and its slowest stage.
std::pair<double, double> largest_folded(const std::vector<LayerCost>& layers,
                                         const std::vector<int>& lengths) {
  std::vector<double> stages;
  std::size_t at = 0;
  for (const int length : lengths) {
    stages.push_back(0);
    for (int i = 0; i < length; ++i) stages.back() += layers.at(at++).seconds;
  }
  EXPECT_EQ(at, layers.size());
  double rank = 0;
  for (std::size_t r = 0; r < stages.size() / 2; ++r)
    rank = std::max(rank, stages[r] + stages[stages.size() - 1 - r]);
  return {rank, *std::max_element(stages.begin(), stages.end())};
}

TEST(PipeBalance, NoOtherCutOfAFoldedPipeIsBetter) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int count = 2 + static_cast<int>(random() % 8),
              ranks = 1 + static_cast<int>(random() % (count / 2));
    std::vector<LayerCost> layers;
    for (int i = 0; i < count; ++i) layers.push_back({static_cast<double>(random() % 6), 1});
    const std::vector<int> chosen = balance_folded(layers, ranks);
    ASSERT_EQ(chosen.size(), 2 * static_cast<std::size_t>(ranks));
    EXPECT_GE(*std::min_element(chosen.begin(), chosen.end()), 1);
    const auto ours = largest_folded(layers, chosen);
    std::vector<int> lengths;
    for_each_cut(count, 2 * ranks, lengths, [&](const std::vector<int>& cut) {
      EXPECT_LE(ours, largest_folded(layers, cut)) << "round " << round;
    });
  }
  EXPECT_THROW(balance_folded(std::vector<LayerCost>(5), 3), Error);
}

/// The tables of 16,384 layers on 8 ranks would take gigabytes, and their cuts years.
TEST(PipeBalance, MoreLayersOfAFoldedPipeThanCanBeWeighedAreRefused) {
  try {
    balance_folded(std::vector<LayerCost>(16386, {1, 1}), 8);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_input);
    EXPECT_STREQ(e.what(),
                 "16386 layers, embedding and head included, are too many to deal out over a folded pipe "
                 "(every cut of them is weighed, of at most 514); give the layers of each stage");
  }
  EXPECT_THROW(balance_folded(std::vector<LayerCost>(most_folded_layers + 1, {1, 1}), 8), Error);
}

TEST(PipeBalance, EqualLayersAreDealtOutEvenlyAndWhatIsMissingIsMissingEarly) {
  const auto of = [](int layers, int stages) {
    return balance(std::vector<LayerCost>(static_cast<std::size_t>(layers), {1, 1}), stages);
  };
  EXPECT_EQ(of(8, 4), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(of(5, 5), (std::vector<int>{1, 1, 1, 1, 1}));
  EXPECT_EQ(of(7, 3), (std::vector<int>{2, 2, 3}));
}

/// 126 layers over 16 stages, with an embedding that takes no time but as much memory as the head, which
/// takes two thirds of a layer of both: the first and the last stage have a layer less, as in Llama 3's own
/// training.
TEST(PipeBalance, TheFirstAndLastStageOf405BHaveALayerLess) {
  std::vector<LayerCost> layers(128, {1, 1});
  layers.front() = {0, 0.66};
  layers.back() = {0.66, 0.66};
  std::vector<int> expected(16, 8);
  EXPECT_EQ(balance(layers, 16), expected);
}

TEST(PipeBalance, MoreStagesThanLayersAreRefused) {
  try {
    balance({{1, 1}, {1, 1}}, 3);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_input);
    EXPECT_STREQ(e.what(),
                 "3 stages of a pipe for 2 layers, embedding and head included; use at most 2 stages");
  }
}

}  // namespace
}  // namespace weft::pipe::test
