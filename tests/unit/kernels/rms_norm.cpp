#include "kernels/rms_norm.hpp"

#include <stdexcept>
#include <utility>

#include "kernels/elementwise.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

constexpr float eps = 1e-5f;

struct Case {
  RowShape shape;
  DType t;
  DType w;       ///< the weight's type
  double scale;  ///< scale of x; a small one makes eps count
};

/// The types of operands and weight that go together.
constexpr std::pair<DType, DType> types[]{
    {DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [t, w] : types)
    for (double scale : {1.0, 1e-3, 0.0})
      for (std::int64_t size : odd_sizes) {
        all.push_back({{5, size}, t, w, scale});
        all.push_back({{size, 24}, t, w, scale});
      }
  return all;
}

testing::Message name(const Case& c) {
  return testing::Message() << name_of(c.t) << ", weight " << name_of(c.w) << ", rows " << c.shape.rows
                            << " dim " << c.shape.dim << " scale " << c.scale;
}

TEST(RmsNorm, ForwardMatchesTheReference) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name(c));
    const std::int64_t n = c.shape.rows * c.shape.dim;
    const Array x = random(n, c.t, 1, c.scale);
    const Array w = random(c.shape.dim, c.w, 2, 0.3, 1.0);
    const Device y(n, c.t);
    const Device rstd(c.shape.rows, DType::f32);
    rms_norm(space(), c.shape, c.t, Device(x, c.t).data(), Device(w, c.w).data(), c.w, eps, y.data(),
             rstd.as<float>());
    const auto expected = reference::rms_norm(c.shape, x, w, static_cast<double>(eps));
    EXPECT_TRUE(close(y.read(), expected.y, tolerance(c.t)));
    EXPECT_TRUE(close(rstd.read(), expected.rstd, 2e-6));
  }
}

TEST(RmsNorm, OfASumHasTheBitsOfBothInTurn) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name(c));
    const std::int64_t n = c.shape.rows * c.shape.dim;
    const Array a = random(n, c.t, 1, c.scale), b = random(n, c.t, 3, c.scale);
    const Device branch(b, c.t), w(random(c.shape.dim, c.w, 2, 0.3, 1.0), c.w);
    const Device sum(a, c.t), y(n, c.t), rstd(c.shape.rows, DType::f32);
    add(space(), n, c.t, sum.data(), branch.data(), sum.data());
    rms_norm(space(), c.shape, c.t, sum.data(), w.data(), c.w, eps, y.data(), rstd.as<float>());
    const Device inout(a, c.t), y_again(n, c.t), rstd_again(c.shape.rows, DType::f32);
    add_rms_norm(space(), c.shape, c.t, inout.data(), branch.data(), w.data(), c.w, eps, inout.data(),
                 y_again.data(), rstd_again.as<float>());
    EXPECT_EQ(inout.bytes(), sum.bytes());
    EXPECT_EQ(y_again.bytes(), y.bytes());
    EXPECT_EQ(rstd_again.bytes(), rstd.bytes());
  }
}

// A device adds such a branch element by element, and sums squares of the aligned sum by packets: what a
// thread reads, another one has written.
TEST(RmsNorm, OfASumWithABranchThatIsNotAligned) {
  const RowShape shape{3, 1024};
  const std::int64_t n = shape.rows * shape.dim;
  const Array a = random(n, DType::f32, 1), b = random(n + 1, DType::f32, 3);
  const Device branch(b, DType::f32), w(random(shape.dim, DType::f32, 2), DType::f32);
  const Device sum(a, DType::f32), y(n, DType::f32), rstd(shape.rows, DType::f32);
  const float* const moved = branch.as<float>() + 1;
  add(space(), n, DType::f32, sum.data(), moved, sum.data());
  rms_norm(space(), shape, DType::f32, sum.data(), w.data(), DType::f32, eps, y.data(), rstd.as<float>());
  const Device inout(a, DType::f32), y_again(n, DType::f32), rstd_again(shape.rows, DType::f32);
  add_rms_norm(space(), shape, DType::f32, inout.data(), moved, w.data(), DType::f32, eps, inout.data(),
               y_again.data(), rstd_again.as<float>());
  EXPECT_EQ(inout.bytes(), sum.bytes());
  EXPECT_EQ(y_again.bytes(), y.bytes());
}

TEST(RmsNorm, ForwardInPlace) {
  const RowShape shape{3, 257};
  const Array x = random(shape.rows * shape.dim, DType::f32, 1);
  const Array w = random(shape.dim, DType::f32, 2);
  const Device inout(x, DType::f32);
  const Device rstd(shape.rows, DType::f32);
  rms_norm(space(), shape, DType::f32, inout.data(), Device(w, DType::f32).data(), DType::f32, eps,
           inout.data(), rstd.as<float>());
  EXPECT_TRUE(close(inout.read(), reference::rms_norm(shape, x, w, static_cast<double>(eps)).y, 4e-6));
}

void check_backward(const Case& c) {
  SCOPED_TRACE(name(c));
  const std::int64_t n = c.shape.rows * c.shape.dim;
  const Array x = random(n, c.t, 1, c.scale);
  const Array w = random(c.shape.dim, c.w, 2, 0.3, 1.0);
  const Array dy = random(n, c.t, 3);
  const auto forward = reference::rms_norm(c.shape, x, w, static_cast<double>(eps));
  const Device x_device(x, c.t), w_device(w, c.w), dy_device(dy, c.t), rstd(forward.rstd, DType::f32);
  const Device dx(n, c.t), dw(c.shape.dim, DType::f32);
  const Buffer partial = scratch(rms_norm_grad_scratch_bytes(c.shape));
  RmsNormGrad grad{x_device.data(), w_device.data(), c.w,       rstd.as<float>(), dy_device.data(),
                   nullptr,         dx.data(),       dw.data(), DType::f32,       partial.data()};
  rms_norm_grad(space(), c.shape, c.t, grad);
  const auto expected = reference::rms_norm_grad(c.shape, x, w, static_cast<double>(eps), dy);
  // dx of a single element cancels, so what remains is the rounding of its terms.
  EXPECT_TRUE(close(dx.read(), expected.dx, c.shape.dim == 1 ? 0.3 : tolerance(c.t, 1e-5)));
  EXPECT_TRUE(close(dw.read(), expected.dw, 1e-5));

  // This adds onto a sum, in its place.
  Array total = random(n, c.t, 4);
  const Device sum(total, c.t);
  for (std::size_t i = 0; i < total.size(); ++i) total[i] += expected.dx[i];
  grad.sum = sum.data();
  grad.dx = sum.data();
  rms_norm_grad(space(), c.shape, c.t, grad);
  EXPECT_TRUE(close(sum.read(), total, tolerance(c.t, 1e-5)));
  EXPECT_TRUE(close(dw.read(), expected.dw, 1e-5));

  // dx may stand where dy did.
  grad.sum = nullptr;
  grad.dx = dy_device.data();
  rms_norm_grad(space(), c.shape, c.t, grad);
  EXPECT_TRUE(dy_device.bytes() == dx.bytes());
}

TEST(RmsNorm, BackwardMatchesTheReference) {
  for (const Case& c : cases()) check_backward(c);
}

/// A device keeps a block's sums of a weight's gradient in registers, 8 packets a thread at most: the widths
/// at both ends of 2, 4 and 8, one between, one that is not taken by packets, and one that is too wide. There
/// are more rows than a block of them has.
TEST(RmsNorm, BackwardOfWideRows) {
  for (const auto& [t, w] : types)
    for (const std::int64_t dim : {2056, 4096, 4104, 8192, 8200, 12292, 12296, 16384, 16392})
      check_backward({{9, dim}, t, w, 1.0});
}

TEST(RmsNorm, AWeightIsNoNarrowerThanTheOperands) {
  const RowShape shape{1, 8};
  const Device x(8, DType::f32), w(8, DType::bf16), rstd(1, DType::f32);
  EXPECT_THROW(
      rms_norm(space(), shape, DType::f32, x.data(), w.data(), DType::bf16, eps, x.data(), rstd.as<float>()),
      std::logic_error);
}

}  // namespace
}  // namespace weft::kernels
