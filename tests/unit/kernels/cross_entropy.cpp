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
