// Tests the readable references against PyTorch's fp64 values (ops.h5), for inputs in fp32 and bf16.
#include "kernels/reference.hpp"

#include <gtest/gtest.h>

#include "golden/op_case.hpp"
#include "kernels/swiglu.hpp"

namespace weft::test {
namespace {

namespace reference = kernels::reference;

TEST(GoldenReference, embedding) {
  for_each_case("embedding", [](const OpCase& c) {
    const auto ids = c.tokens("ids");
    const kernels::EmbeddingShape shape{static_cast<std::int64_t>(ids.size()), c.extent("table", 0),
                                        c.extent("table", 1)};
    c.expect_reference("y", reference::embedding(shape, ids, c.values("table")));
    c.expect_reference("dtable", reference::embedding_grad(shape, ids, c.values("dy")));
  });
}

TEST(GoldenReference, rms_norm) {
  for_each_case("rms_norm", [](const OpCase& c) {
    const kernels::RowShape shape{c.extent("x", 0), c.extent("x", 1)};
    c.expect_reference("y", reference::rms_norm(shape, c.values("x"), c.values("w"), c.attr("eps")).y);
    const auto grads =
        reference::rms_norm_grad(shape, c.values("x"), c.values("w"), c.attr("eps"), c.values("dy"));
    c.expect_reference("dx", grads.dx);
    c.expect_reference("dw", grads.dw);
  });
}

TEST(GoldenReference, rope) {
  const GoldenFile file(WEFT_SOURCE_DIR "/tests/golden/ops.h5");
  for_each_case("rope", [&](const OpCase& c) {
    const kernels::RopeShape shape{c.extent("x", 1), c.extent("x", 2), c.extent("x", 3)};
    const auto cos = file.f32(c.path() + "/cos"), sin = file.f32(c.path() + "/sin");
    Array table;  // a row for each of the case's positions
    for (std::size_t i = 0; i < cos.size(); ++i) table.insert(table.end(), {cos[i], sin[i]});
    std::vector<std::int32_t> rows;
    for (std::int32_t i = 0; i < shape.rows; ++i) rows.push_back(i);
    c.expect_reference("y",
                       reference::rope(shape, c.values("x"), rows, table, kernels::RopeDirection::forward));
    c.expect_reference("dx",
                       reference::rope(shape, c.values("dy"), rows, table, kernels::RopeDirection::backward));
  });
}

TEST(GoldenReference, attention) {
  for_each_case("attention", [](const OpCase& c) {
    const kernels::AttentionShape shape{c.extent("q", 0), c.extent("q", 1), c.extent("q", 2),
                                        c.extent("k", 2), c.extent("q", 3)};
    const auto forward = reference::attention(shape, c.values("q"), c.values("k"), c.values("v"));
    c.expect_reference("y", forward.o);
    c.expect_reference("lse", forward.lse);
    const auto grads = reference::attention_grad(shape, c.values("q"), c.values("k"), c.values("v"),
                                                 forward.o, c.values("dy"));
    c.expect_reference("dq", grads.dq);
    c.expect_reference("dk", grads.dk);
    c.expect_reference("dv", grads.dv);
  });
}

TEST(GoldenReference, swiglu) {
  for_each_case("swiglu", [](const OpCase& c) {
    c.expect_reference("y", reference::swiglu(c.values("gate"), c.values("up")));
    const auto grads = reference::swiglu_grad(c.values("gate"), c.values("up"), c.values("dy"));
    c.expect_reference("dgate", grads.dgate);
    c.expect_reference("dup", grads.dup);
  });
}

TEST(GoldenReference, cross_entropy) {
  for_each_case("cross_entropy", [](const OpCase& c) {
    const kernels::LossShape shape{c.extent("logits", 0), c.extent("logits", 1)};
    c.expect_reference("y", {reference::cross_entropy(shape, c.values("logits"), c.tokens("targets")).loss});
    c.expect_reference("dlogits",
                       reference::cross_entropy_grad(shape, c.values("logits"), c.tokens("targets")));
  });
}

TEST(GoldenReference, linear) {
  for_each_case("linear", [](const OpCase& c) {
    const std::int64_t rows = c.extent("x", 0), in = c.extent("x", 1), out = c.extent("w", 0);
    const auto product = [&](kernels::MatmulForm form, const char* a, const char* b) {
      return reference::matmul({form, rows, in, out, c.type(), DType::f32}, c.values(a), c.values(b));
    };
    c.expect_reference("y", product(kernels::MatmulForm::forward, "x", "w"));
    c.expect_reference("dx", product(kernels::MatmulForm::dgrad, "dy", "w"));
    c.expect_reference("dw", product(kernels::MatmulForm::wgrad, "dy", "x"));
  });
}

TEST(GoldenReference, adamw) {
  const GoldenFile file(WEFT_SOURCE_DIR "/tests/golden/ops.h5");
  for_each_case("adamw", [&](const OpCase& c) {
    const auto grads = c.values("grads");
    const auto lr = file.f64(c.path() + "/lr");
    const auto n = static_cast<std::ptrdiff_t>(grads.size() / lr.size());
    reference::AdamWState state{c.values("w0"), Array(static_cast<std::size_t>(n)),
                                Array(static_cast<std::size_t>(n))};
    Array w, m, v;
    for (std::size_t s = 0; s < lr.size(); ++s) {
      const auto first = grads.begin() + static_cast<std::ptrdiff_t>(s) * n;
      reference::adamw(state,
                       {lr[s], c.attr("beta1"), c.attr("beta2"), c.attr("eps"), c.attr("weight_decay")},
                       static_cast<int>(s) + 1, Array(first, first + n));
      w.insert(w.end(), state.param.begin(), state.param.end());
      m.insert(m.end(), state.exp_avg.begin(), state.exp_avg.end());
      v.insert(v.end(), state.exp_avg_sq.begin(), state.exp_avg_sq.end());
    }
    c.expect_reference("w", w);
    c.expect_reference("m", m);
    c.expect_reference("v", v);
  });
}

}  // namespace
}  // namespace weft::test
