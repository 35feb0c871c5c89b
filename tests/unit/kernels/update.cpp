#include "kernels/update.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

constexpr reference::AdamWSettings settings{1e-2, 0.9, 0.95, 1e-8, 0.1};

/// The step block of step t, as the trainer fills it.
StepBlock step_block(int t, const reference::AdamWSettings& s) {
  StepBlock block;
  block.lr = static_cast<float>(s.lr);
  block.decay = static_cast<float>(1.0 - s.lr * s.weight_decay);
  block.step_size = static_cast<float>(s.lr / (1.0 - std::pow(s.beta1, t)));
  block.bias2_sqrt = static_cast<float>(std::sqrt(1.0 - std::pow(s.beta2, t)));
  block.step = t;
  return block;
}

struct State {
  Device master, exp_avg, exp_avg_sq, param;
};

State state_of(const Array& initial, DType param_type) {
  const Array zeros(initial.size(), 0.0);
  return {Device(initial, DType::f32), Device(zeros, DType::f32), Device(zeros, DType::f32),
          Device(static_cast<std::int64_t>(initial.size()), param_type)};
}

/// Calls adamw once, on elements [begin, begin + n).
void step_slice(const State& s, const Array& grad, std::int64_t begin, std::int64_t n, int t,
                DType param_type, double factor = 0.5, int hold = 0) {
  const Device g(grad, DType::f32), scale({0, factor, 0, 0}, DType::f32);
  StepBlock host = step_block(t, settings);
  host.hold = hold;
  Buffer block(sizeof host, "test");
  copy_to_device(space(), block.data(), &host, sizeof host);
  const AdamW adam{settings.beta1, settings.beta2, static_cast<float>(settings.eps),
                   reinterpret_cast<const StepBlock*>(block.data()), scale.as<float>()};
  adamw(space(), n, adam, g.as<float>() + begin, s.master.as<float>() + begin, s.exp_avg.as<float>() + begin,
        s.exp_avg_sq.as<float>() + begin, param_type,
        s.param.as<std::byte>() + static_cast<std::size_t>(begin) * size_of(param_type));
  fence(space());
}

TEST(AdamW, FollowsTheReferenceForTenSteps) {
  for (std::int64_t n : odd_sizes) {
    const Array initial = random(n, DType::f32, 1);
    const State state = state_of(initial, DType::bf16);
    const Array zeros(initial.size(), 0.0);
    reference::AdamWState expected{initial, zeros, zeros};
    for (int t = 1; t <= 10; ++t) {
      Array grad = random(n, DType::f32, t, t == 3 ? 1e-6 : 1.0);
      step_slice(state, grad, 0, n, t, DType::bf16);
      for (double& g : grad) g *= 0.5;
      reference::adamw(expected, settings, t, grad);
    }
    EXPECT_TRUE(close(state.master.read(), expected.param, 1e-6)) << n;
    EXPECT_TRUE(close(state.exp_avg.read(), expected.exp_avg, 1e-6)) << n;
    EXPECT_TRUE(close(state.exp_avg_sq.read(), expected.exp_avg_sq, 1e-6)) << n;
    EXPECT_TRUE(close(state.param.read(), state.master.read(), 2.0 / 512)) << n;
  }
}

/// This tests the test above, which must see each of the five where it is wrong. The betas show from the
/// second step on: in the first they cancel.
TEST(AdamW, WrongHyperparametersShow) {
  const Array initial = random(257, DType::f32, 1), zeros(257, 0.0);
  const State state = state_of(initial, DType::bf16);
  std::vector<Array> halves;
  for (const int t : {1, 2}) {
    halves.push_back(random(257, DType::f32, 1 + t, 1e-6));
    step_slice(state, halves.back(), 0, 257, t, DType::bf16);
    for (double& g : halves.back()) g *= 0.5;
  }
  const auto follows = [&](const reference::AdamWSettings& s) {
    reference::AdamWState expected{initial, zeros, zeros};
    for (const int t : {1, 2}) reference::adamw(expected, s, t, halves[static_cast<std::size_t>(t) - 1]);
    return close(state.master.read(), expected.param, 1e-6);
  };
  EXPECT_TRUE(follows(settings));
  EXPECT_FALSE(follows({2e-2, 0.9, 0.95, 1e-8, 0.1}));
  EXPECT_FALSE(follows({1e-2, 0.8, 0.95, 1e-8, 0.1}));
  EXPECT_FALSE(follows({1e-2, 0.9, 0.99, 1e-8, 0.1}));
  EXPECT_FALSE(follows({1e-2, 0.9, 0.95, 1e-7, 0.1}));
  EXPECT_FALSE(follows({1e-2, 0.9, 0.95, 1e-8, 0.0}));
}

TEST(AdamW, BitsDoNotDependOnTheSlice) {
  const std::int64_t n = 256 * 37 + 19;
  const Array initial = random(n, DType::f32, 1);
  const State whole = state_of(initial, DType::bf16), cut = state_of(initial, DType::bf16);
  for (int t = 1; t <= 3; ++t) {
    const Array grad = random(n, DType::f32, 10 + t);
    step_slice(whole, grad, 0, n, t, DType::bf16);
    for (std::int64_t begin = 0; begin < n;) {
      const std::int64_t count = std::min<std::int64_t>(256 * (1 + begin / 256 % 5), n - begin);
      step_slice(cut, grad, begin, count, t, DType::bf16);
      begin += count;
    }
  }
  EXPECT_EQ(whole.master.bytes(), cut.master.bytes());
  EXPECT_EQ(whole.exp_avg.bytes(), cut.exp_avg.bytes());
  EXPECT_EQ(whole.exp_avg_sq.bytes(), cut.exp_avg_sq.bytes());
  EXPECT_EQ(whole.param.bytes(), cut.param.bytes());
}

TEST(AdamW, FloatParameterIsTheMasterOrACopy) {
  const Array initial = random(300, DType::f32, 1), grad = random(300, DType::f32, 2);
  const State state = state_of(initial, DType::f32);
  step_slice(state, grad, 0, 300, 1, DType::f32);
  EXPECT_EQ(state.param.bytes(), state.master.bytes());
}

TEST(AdamW, AFactorThatIsNotFiniteOrARehearsalKeepsEveryBit) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  for (const DType t : float_types)
    for (const std::int64_t n : {1, 257, 4096 + 19}) {
      const State state = state_of(random(n, DType::f32, 1), t);
      for (int step = 1; step <= 2; ++step) step_slice(state, random(n, DType::f32, step), 0, n, step, t);
      const auto bits = [&] {
        return std::array{state.master.bytes(), state.exp_avg.bytes(), state.exp_avg_sq.bytes(),
                          state.param.bytes()};
      };
      const auto before = bits();
      for (const double factor : {nan, infinity, -infinity})
        for (const double g : {1.0, nan, infinity}) {
          step_slice(state, Array(static_cast<std::size_t>(n), g), 0, n, 3, t, factor);
          EXPECT_TRUE(bits() == before) << name_of(t) << ' ' << n << ' ' << factor << ' ' << g;
        }
      step_slice(state, Array(static_cast<std::size_t>(n), 1.0), 0, n, 3, t, 0.5, /*hold=*/1);
      EXPECT_TRUE(bits() == before) << "a rehearsal";
      step_slice(state, Array(static_cast<std::size_t>(n), 1.0), 0, n, 3, t);
      EXPECT_FALSE(bits() == before);
    }
}

TEST(Accumulate, ReplacesAndAdds) {
  for (DType t : float_types)
    for (std::int64_t n : odd_sizes) {
      const Array first = random(n, t, 1), second = random(n, t, 2);
      const Device acc(n, DType::f32);
      accumulate(space(), n, t, Device(first, t).data(), acc.as<float>(), WriteMode::replace);
      EXPECT_EQ(acc.read(), first);
      accumulate(space(), n, t, Device(second, t).data(), acc.as<float>(), WriteMode::add);
      Array sum(first);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second[i];
      EXPECT_TRUE(close(acc.read(), sum, 1e-7));
    }
}

}  // namespace
}  // namespace weft::kernels
