// Compares learning rates with outside references: PyTorch 2.15 schedulers in fp64 (LinearLR for the warm-up,
// then CosineAnnealingLR, LinearLR or ConstantLR, joined by SequentialLR), and the end points by hand.
#include "train/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace weft::train {
namespace {

LrCourse course(LrDecay decay) {
  return {.lr = 1e-3, .min_lr = 1e-4, .warmup = 4, .steps = 20, .decay_steps = 5, .decay = decay};
}

void expect_curve(LrDecay decay, const std::vector<double>& torch) {
  for (std::size_t s = 0; s < torch.size(); ++s)
    EXPECT_NEAR(learning_rate(course(decay), static_cast<std::int64_t>(s)), torch[s], 1e-11 * torch[s])
        << "step " << s;
}

TEST(LearningRate, Linear) {
  expect_curve(LrDecay::linear,
               {0.00025,    0.0005,     0.00075,    0.001,      0.001,      0.00094375, 0.0008875,
                0.00083125, 0.000775,   0.00071875, 0.0006625,  0.00060625, 0.00055,    0.00049375,
                0.0004375,  0.00038125, 0.000325,   0.00026875, 0.0002125,  0.00015625, 0.0001});
}

TEST(LearningRate, Cosine) {
  expect_curve(LrDecay::cosine, {0.00025,
                                 0.0005,
                                 0.00075,
                                 0.001,
                                 0.001,
                                 0.000991353376181,
                                 0.00096574578963,
                                 0.000924161325536,
                                 0.000868198051534,
                                 0.000800006604859,
                                 0.000722207544564,
                                 0.000637790644907,
                                 0.00055,
                                 0.000462209355093,
                                 0.000377792455436,
                                 0.000299993395141,
                                 0.000231801948466,
                                 0.000175838674464,
                                 0.00013425421037,
                                 0.000108646623819,
                                 0.0001});
}

TEST(LearningRate, WarmupStableDecay) {
  std::vector<double> torch{0.00025, 0.0005, 0.00075};
  torch.resize(16, 0.001);
  torch.insert(torch.end(), {0.00082, 0.00064, 0.00046, 0.00028, 0.0001});
  expect_curve(LrDecay::wsd, torch);
}

TEST(LearningRate, ConstantAfterWarmup) {
  std::vector<double> torch{0.00025, 0.0005, 0.00075};
  torch.resize(21, 0.001);
  expect_curve(LrDecay::constant, torch);
}

TEST(LearningRate, NoWarmupStartsAtThePeak) {
  for (const LrDecay decay : {LrDecay::constant, LrDecay::linear, LrDecay::cosine, LrDecay::wsd}) {
    auto s = course(decay);
    s.warmup = 0;
    EXPECT_EQ(learning_rate(s, 0), s.lr);
  }
}

TEST(LearningRate, StaysAtTheEndPastTheEnd) {
  for (const LrDecay decay : {LrDecay::linear, LrDecay::cosine, LrDecay::wsd})
    EXPECT_DOUBLE_EQ(learning_rate(course(decay), 1000), 1e-4);
  EXPECT_EQ(learning_rate(course(LrDecay::constant), 1000), 1e-3);
}

TEST(LearningRate, DegenerateSchedulesStayFinite) {
  for (const LrDecay decay : {LrDecay::constant, LrDecay::linear, LrDecay::cosine, LrDecay::wsd}) {
    for (const LrCourse& s : {LrCourse{1e-3, 1e-4, 10, 10, 0, decay}, LrCourse{1e-3, 1e-4, 10, 5, 0, decay},
                              LrCourse{1e-3, 1e-4, 0, 1, 9, decay}}) {
      for (std::int64_t step = 0; step < 12; ++step) {
        const double lr = learning_rate(s, step);
        EXPECT_TRUE(std::isfinite(lr) && lr >= 1e-4 * 0.999 && lr <= 1e-3) << "step " << step << ": " << lr;
      }
    }
  }
}

}  // namespace
}  // namespace weft::train
