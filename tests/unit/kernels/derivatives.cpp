// Compares the references' gradients with central differences of the references' forwards, in fp64.
#include <functional>

#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

double inner(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Expects `grad` to be the gradient of `f` at `x`, element by element.
void expect_gradient(const std::function<double(const Array&)>& f, Array x, const Array& grad) {
  constexpr double h = 1e-5;
  Array numeric(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double centre = x[i];
    x[i] = centre + h;
    const double above = f(x);
    x[i] = centre - h;
    const double below = f(x);
    x[i] = centre;
    numeric[i] = (above - below) / (2 * h);
  }
  EXPECT_TRUE(close(grad, numeric, 1e-7));
}

TEST(Derivatives, RmsNorm) {
  for (double scale : {1.0, 1e-2}) {
    const RowShape shape{4, 7};
    const Array x = random(28, DType::f32, 1, scale), w = random(7, DType::f32, 2),
                dy = random(28, DType::f32, 3);
    const double eps = 1e-3;
    const auto grads = reference::rms_norm_grad(shape, x, w, eps, dy);
    expect_gradient([&](const Array& v) { return inner(reference::rms_norm(shape, v, w, eps).y, dy); }, x,
                    grads.dx);
    expect_gradient([&](const Array& v) { return inner(reference::rms_norm(shape, x, v, eps).y, dy); }, w,
                    grads.dw);
  }
}

void check_attention(const AttentionShape& s, const Tokens& positions) {
  const std::int64_t queries = s.runs() * s.batch * s.queries() * s.heads * s.head_dim;
  const std::int64_t keys = s.batch * s.seq * s.kv_heads * s.head_dim;
  const Array q = random(queries, DType::f32, 1), k = random(keys, DType::f32, 2);
  const Array v = random(keys, DType::f32, 3), dout = random(queries, DType::f32, 4);
  const auto forward = [&](const Array& q1, const Array& k1, const Array& v1) {
    return reference::attention(s, q1, k1, v1, positions).o;
  };
  const auto grads = reference::attention_grad(s, q, k, v, forward(q, k, v), dout, positions);
  expect_gradient([&](const Array& x) { return inner(forward(x, k, v), dout); }, q, grads.dq);
  expect_gradient([&](const Array& x) { return inner(forward(q, x, v), dout); }, k, grads.dk);
  expect_gradient([&](const Array& x) { return inner(forward(q, k, x), dout); }, v, grads.dv);
}

TEST(Derivatives, Attention) {
  for (std::int64_t kv_heads : {1, 2, 4}) check_attention({2, 5, 4, kv_heads, 3}, {});
}

TEST(Derivatives, AttentionOfOnePlace) {
  const AttentionShape s{1, 8, 2, 1, 3, 2, 1};  // it has the queries 2, 3 and 4, 5
  check_attention(s, {});
  check_attention(s, {2, 0, 1, 2});
}

TEST(Derivatives, Swiglu) {
  const Array gate = random(20, DType::f32, 1), up = random(20, DType::f32, 2),
              dout = random(20, DType::f32, 3);
  const auto grads = reference::swiglu_grad(gate, up, dout);
  expect_gradient([&](const Array& x) { return inner(reference::swiglu(x, up), dout); }, gate, grads.dgate);
  expect_gradient([&](const Array& x) { return inner(reference::swiglu(gate, x), dout); }, up, grads.dup);
}

TEST(Derivatives, CrossEntropy) {
  const LossShape shape{4, 6};
  const Tokens targets = {0, -1, 5, 2};
  const Array logits = random(24, DType::f32, 1);
  expect_gradient([&](const Array& x) { return reference::cross_entropy(shape, x, targets).loss; }, logits,
                  reference::cross_entropy_grad(shape, logits, targets));
}

TEST(Derivatives, Embedding) {
  const EmbeddingShape shape{6, 4, 3};
  const Tokens tokens = {1, 0, 1, 1, 3, 0};
  const Array table = random(12, DType::f32, 1), dout = random(18, DType::f32, 2);
  expect_gradient([&](const Array& x) { return inner(reference::embedding(shape, tokens, x), dout); }, table,
                  reference::embedding_grad(shape, tokens, dout));
}

TEST(Derivatives, Rope) {
  const RopeShape shape{3, 2, 4};
  const Tokens positions = {0, 4, 2};
  std::vector<float> single(5 * 4);
  fill_rope_table(single.data(), 5, 4, 100.0f, {});
  const Array table(single.begin(), single.end());
  const Array x = random(24, DType::f32, 1), dout = random(24, DType::f32, 2);
  expect_gradient(
      [&](const Array& v) {
        return inner(reference::rope(shape, v, positions, table, RopeDirection::forward), dout);
      },
      x, reference::rope(shape, dout, positions, table, RopeDirection::backward));
}

TEST(Derivatives, Matmul) {
  MatmulSpec spec{MatmulForm::forward, 3, 4, 5, DType::f32, DType::f32};
  const Array x = random(12, DType::f32, 1), w = random(20, DType::f32, 2), dy = random(15, DType::f32, 3);
  const auto loss = [&](const Array& a, const Array& b) { return inner(reference::matmul(spec, a, b), dy); };
  MatmulSpec dgrad = spec, wgrad = spec;
  dgrad.form = MatmulForm::dgrad;
  wgrad.form = MatmulForm::wgrad;
  expect_gradient([&](const Array& v) { return loss(v, w); }, x, reference::matmul(dgrad, dy, w));
  expect_gradient([&](const Array& v) { return loss(x, v); }, w, reference::matmul(wgrad, dy, x));
}

}  // namespace
}  // namespace weft::kernels
