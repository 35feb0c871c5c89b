// Tests the update phase against torch.optim.AdamW and torch.nn.utils.clip_grad_norm_ (ops.h5).
// OpCase::expect has the tolerances.
#include <gtest/gtest.h>

#include <cmath>

#include "golden/op_case.hpp"
#include "kernels/update.hpp"
#include "support/kokkos_environment.hpp"

namespace weft::test {
namespace {

using kernels::Buffer;
using kernels::Space;

float* as_floats(const Buffer& b) {
  return reinterpret_cast<float*>(b.data());
}

/// The step block that the trainer would write.
StepBlock step_block(double lr, double beta1, double beta2, double weight_decay, int t) {
  StepBlock block;
  block.lr = static_cast<float>(lr);
  block.decay = static_cast<float>(1 - lr * weight_decay);
  block.step_size = static_cast<float>(lr / (1 - std::pow(beta1, t)));
  block.bias2_sqrt = static_cast<float>(std::sqrt(1 - std::pow(beta2, t)));
  block.step = t;
  return block;
}

class AdamWState {
 public:
  AdamWState(Space& space, const Array& w0)
      : n_(static_cast<std::int64_t>(w0.size())),
        master_(upload(space, std::vector<float>(w0.begin(), w0.end()))),
        exp_avg_(upload(space, std::vector<float>(w0.size()))),
        exp_avg_sq_(upload(space, std::vector<float>(w0.size()))),
        param_(output(space, DType::bf16, n_)) {}

  void step(Space& space, const OpCase& c, const std::vector<float>& grad, double lr, int t) {
    const Buffer block = upload(
        space, std::vector{step_block(lr, c.attr("beta1"), c.attr("beta2"), c.attr("weight_decay"), t)});
    const Buffer scale = upload(space, std::vector<float>{0, 1, 0, 1}), g = upload(space, grad);
    const kernels::AdamW adam{c.attr("beta1"), c.attr("beta2"), static_cast<float>(c.attr("eps")),
                              reinterpret_cast<const StepBlock*>(block.data()), as_floats(scale)};
    kernels::adamw(space, n_, adam, as_floats(g), as_floats(master_), as_floats(exp_avg_),
                   as_floats(exp_avg_sq_), DType::bf16, param_.data());
  }
  void append(Space& space, Array& w, Array& m, Array& v, Array& narrow) const {
    const auto add = [&](Array& to, const Buffer& from, DType t) {
      const Array values = to_host(space, from, t, n_);
      to.insert(to.end(), values.begin(), values.end());
    };
    add(w, master_, DType::f32);
    add(m, exp_avg_, DType::f32);
    add(v, exp_avg_sq_, DType::f32);
    add(narrow, param_, DType::bf16);
  }

 private:
  std::int64_t n_;
  Buffer master_, exp_avg_, exp_avg_sq_, param_;
};

TEST(GoldenUpdate, adamw) {
  const GoldenFile file(WEFT_SOURCE_DIR "/tests/golden/ops.h5");
  for_each_case("adamw", [&](const OpCase& c) {
    Space space;
    AdamWState state(space, c.values("w0"));
    const auto grads = file.f32(c.path() + "/grads");
    const auto lr = file.f64(c.path() + "/lr");
    const auto n = static_cast<std::ptrdiff_t>(grads.size() / lr.size());
    Array w, m, v, narrow;
    for (std::size_t s = 0; s < lr.size(); ++s) {
      const auto first = grads.begin() + static_cast<std::ptrdiff_t>(s) * n;
      state.step(space, c, std::vector<float>(first, first + n), lr[s], static_cast<int>(s) + 1);
      state.append(space, w, m, v, narrow);
    }
    c.expect("w", w, DType::f32);
    c.expect("m", m, DType::f32);
    c.expect("v", v, DType::f32);
    for (std::size_t i = 0; i < w.size(); ++i)
      ASSERT_EQ(narrow[i], to_float(to_bf16(static_cast<float>(w[i]))))
          << c.path() << ": bf16 copy of element " << i;
  });
}

TEST(GoldenUpdate, clip_grad_norm) {
  for_each_case("clip_grad_norm", [](const OpCase& c) {
    Space space;
    const Buffer limbs = upload(space, std::vector<std::int64_t>(exact_limbs));
    const Buffer totals = upload(space, std::vector<double>{0, 1}), out = output(space, DType::f32, 4);
    for (const char* name : {"grad0", "grad1"}) {
      const Buffer g = c.device(space, name);
      kernels::sum_squares(space, c.extent(name, 0), as_floats(g),
                           reinterpret_cast<std::int64_t*>(limbs.data()));
    }
    kernels::clip_scale(space, reinterpret_cast<const std::int64_t*>(limbs.data()),
                        reinterpret_cast<const double*>(totals.data()),
                        static_cast<float>(c.attr("max_norm")), as_floats(out));
    const Array found = to_host(space, out, DType::f32, 4);
    EXPECT_NEAR(found[0], c.attr("norm"), 1e-6 * c.attr("norm")) << c.path();
    for (const char* suffix : {"0", "1"}) {
      Array clipped = c.values(std::string("grad") + suffix);
      for (double& x : clipped) x *= found[1];
      c.expect(std::string("clipped") + suffix, clipped, DType::f32);
    }
  });
}

}  // namespace
}  // namespace weft::test
