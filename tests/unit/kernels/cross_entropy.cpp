#include "kernels/cross_entropy.hpp"

#include <cmath>
#include <limits>

#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

struct Case {
  LossShape shape;
  DType t;
  double scale;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (DType t : float_types)
    for (double scale : {1.0, 40.0})
      for (std::int64_t size : odd_sizes) {
        all.push_back({{5, size}, t, scale});
        all.push_back({{size, 33}, t, scale});
      }
  return all;
}

Tokens targets_of(const LossShape& shape) {
  Tokens targets = random_tokens(shape.rows, shape.vocab, 5);
  for (std::size_t r = 0; r < targets.size(); r += 3) targets[r] = r % 2 ? -100 : -1;
  if (targets.size() == 1) targets[0] = 0;
  return targets;
}

TEST(CrossEntropy, MatchesTheReferenceAndSkipsIgnoredRows) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(testing::Message() << name_of(c.t) << " rows " << c.shape.rows << " vocab "
                                    << c.shape.vocab);
    const Array z = random(c.shape.rows * c.shape.vocab, c.t, 1, c.scale);
    const Tokens targets = targets_of(c.shape);
    const DeviceTokens targets_device(targets);
    const Device logits(z, c.t), lse(c.shape.rows, DType::f32), totals(2, DType::f64);
    cross_entropy(space(), c.shape, c.t, logits.data(), targets_device.data(), lse.as<float>(),
                  totals.as<double>(), scratch(cross_entropy_scratch_bytes(c.shape)).data());
    const auto expected = reference::cross_entropy(c.shape, z, targets);
    EXPECT_TRUE(close(lse.read(), expected.lse, 1e-6));
    EXPECT_TRUE(close(totals.read(), {expected.loss, expected.count}, 1e-6));
    EXPECT_EQ(totals.read()[1], expected.count);

    cross_entropy_grad(space(), c.shape, c.t, logits.data(), targets_device.data(), lse.as<float>(),
                       logits.data());
    // exp(z - lse) has the rounding of z and lse, which grows with them.
    const double floor = 1e-6 * c.scale;
    EXPECT_TRUE(
        close(logits.read(), reference::cross_entropy_grad(c.shape, z, targets), tolerance(c.t), floor));
  }
}

/// A vocabulary in equal parts has the loss and the gradient of the whole one.
TEST(CrossEntropy, PartsOfAVocabularyAreTheWhole) {
  for (const DType t : float_types)
    for (const double scale : {1.0, 40.0})
      for (const std::int64_t ranks : {2, 3, 7})
        for (const std::int64_t own : {1, 33, 130}) {
          SCOPED_TRACE(testing::Message() << name_of(t) << " " << ranks << " parts of " << own);
          const LossShape all{70, ranks * own};
          const Array z = random(all.rows * all.vocab, t, 1, scale);
          const Tokens targets = targets_of(all);
          const DeviceTokens targets_device(targets);
          std::vector<Array> parts;
          Array found;
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            parts.emplace_back();
            for (std::int64_t row = 0; row < all.rows; ++row)
              for (std::int64_t c = 0; c < own; ++c)
                parts.back().push_back(z[static_cast<std::size_t>(row * all.vocab + rank * own + c)]);
            const Device of_rank(3 * all.rows, DType::f32);
            cross_entropy_part(space(), {all.rows, own, rank * own}, t, Device(parts.back(), t).data(),
                               targets_device.data(), of_rank.as<float>());
            for (const double x : of_rank.read()) found.push_back(x);
          }
          const Device lse(all.rows, DType::f32), totals(2, DType::f64);
          cross_entropy_of_parts(space(), all.rows, ranks, Device(found, DType::f32).as<float>(),
                                 targets_device.data(), lse.as<float>(), totals.as<double>(),
                                 scratch(cross_entropy_scratch_bytes(all)).data());
          const auto expected = reference::cross_entropy(all, z, targets);
          EXPECT_TRUE(close(lse.read(), expected.lse, 1e-6));
          EXPECT_TRUE(close(totals.read(), {expected.loss, expected.count}, 1e-6));

          const Array gradient = reference::cross_entropy_grad(all, z, targets);
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const Device logits(parts[static_cast<std::size_t>(rank)], t);
            cross_entropy_grad(space(), {all.rows, own, rank * own}, t, logits.data(), targets_device.data(),
                               lse.as<float>(), logits.data());
            Array of_rank;
            for (std::int64_t row = 0; row < all.rows; ++row)
              for (std::int64_t c = 0; c < own; ++c)
                of_rank.push_back(gradient[static_cast<std::size_t>(row * all.vocab + rank * own + c)]);
            EXPECT_TRUE(close(logits.read(), of_rank, tolerance(t), 1e-6 * scale));
          }
        }
}

TEST(CrossEntropy, ANaNIsSeenInTheLoss) {
  for (DType t : float_types)
    for (std::size_t place : {0, 40, 66}) {
      const LossShape shape{2, 67};
      Array z = random(2 * 67, t, 1);
      z[place] = std::numeric_limits<double>::quiet_NaN();
      const DeviceTokens targets(Tokens{1, 2});
      const Device logits(z, t), lse(2, DType::f32), totals(2, DType::f64);
      cross_entropy(space(), shape, t, logits.data(), targets.data(), lse.as<float>(), totals.as<double>(),
                    scratch(cross_entropy_scratch_bytes(shape)).data());
      EXPECT_TRUE(std::isnan(totals.read()[0])) << name_of(t) << " at " << place;
      EXPECT_FALSE(std::isnan(lse.read()[1]));
    }
}

TEST(CrossEntropy, AllRowsIgnored) {
  const LossShape shape{4, 7};
  const Tokens targets(4, -1);
  const Device logits(random(28, DType::f32, 1), DType::f32), lse(4, DType::f32), totals(2, DType::f64);
  cross_entropy(space(), shape, DType::f32, logits.data(), DeviceTokens(targets).data(), lse.as<float>(),
                totals.as<double>(), scratch(cross_entropy_scratch_bytes(shape)).data());
  EXPECT_EQ(totals.read(), (Array{0, 0}));
  cross_entropy_grad(space(), shape, DType::f32, logits.data(), DeviceTokens(targets).data(), lse.as<float>(),
                     logits.data());
  EXPECT_EQ(logits.read(), Array(28, 0.0));
}

TEST(CrossEntropy, UniformLogitsGiveTheLogOfTheVocabulary) {
  const LossShape shape{3, 1000};
  const Device logits(Array(3000, 5.0), DType::f32), lse(3, DType::f32), totals(2, DType::f64);
  cross_entropy(space(), shape, DType::f32, logits.data(), DeviceTokens({0, 500, 999}).data(),
                lse.as<float>(), totals.as<double>(), scratch(cross_entropy_scratch_bytes(shape)).data());
  EXPECT_NEAR(totals.read()[0], 3 * 6.907755278982137, 1e-5);
}

}  // namespace
}  // namespace weft::kernels
