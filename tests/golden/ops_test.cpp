// Tests the kernels against PyTorch's values (ops.h5). OpCase::expect has the tolerances.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "golden/op_case.hpp"
#include "kernels/attention.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/matmul.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/swiglu.hpp"
#include "support/kokkos_environment.hpp"

namespace weft::test {
namespace {

using kernels::Buffer;
using kernels::Space;

const std::int32_t* as_tokens(const Buffer& b) {
  return reinterpret_cast<const std::int32_t*>(b.data());
}
float* as_floats(const Buffer& b) {
  return reinterpret_cast<float*>(b.data());
}
double* as_doubles(const Buffer& b) {
  return reinterpret_cast<double*>(b.data());
}

/// The types of parameter gradients: they are written in fp32 and, for bf16 weights, in bf16, too.
std::vector<DType> gradient_types(const OpCase& c) {
  return c.type() == DType::f32 ? std::vector{DType::f32} : std::vector{DType::f32, DType::bf16};
}

TEST(GoldenOps, embedding) {
  for_each_case("embedding", [](const OpCase& c) {
    Space space;
    const auto ids = c.tokens("ids");
    const kernels::EmbeddingShape shape{static_cast<std::int64_t>(ids.size()), c.extent("table", 0),
                                        c.extent("table", 1)};
    const Buffer tokens = upload(space, ids), table = c.device(space, "table"), dy = c.device(space, "dy");
    const Buffer y = output(space, c.type(), shape.rows * shape.dim);
    kernels::embedding(space, shape, c.type(), as_tokens(tokens), table.data(), y.data());
    c.expect("y", to_host(space, y, c.type(), shape.rows * shape.dim), c.type());

    const Buffer scratch =
        output(space, DType::u8, static_cast<std::int64_t>(kernels::embedding_grad_scratch_bytes(shape)));
    for (DType t : gradient_types(c)) {
      const Buffer dtable = output(space, t, shape.vocab * shape.dim);
      kernels::embedding_grad(space, shape, c.type(), as_tokens(tokens), dy.data(), t, dtable.data(),
                              scratch.data());
      c.expect("dtable", to_host(space, dtable, t, shape.vocab * shape.dim), t);
    }
  });
}

TEST(GoldenOps, rms_norm) {
  for_each_case("rms_norm", [](const OpCase& c) {
    Space space;
    const kernels::RowShape shape{c.extent("x", 0), c.extent("x", 1)};
    const std::int64_t n = shape.rows * shape.dim;
    const Buffer x = c.device(space, "x"), w = c.device(space, "w"), dy = c.device(space, "dy");
    const Buffer y = output(space, c.type(), n), rstd = output(space, DType::f32, shape.rows);
    kernels::rms_norm(space, shape, c.type(), x.data(), w.data(), c.type(), static_cast<float>(c.attr("eps")),
                      y.data(), as_floats(rstd));
    c.expect("y", to_host(space, y, c.type(), n), c.type());

    const Buffer scratch =
        output(space, DType::u8, static_cast<std::int64_t>(kernels::rms_norm_grad_scratch_bytes(shape)));
    for (DType t : gradient_types(c)) {
      const Buffer dx = output(space, c.type(), n), dw = output(space, t, shape.dim);
      kernels::rms_norm_grad(space, shape, c.type(),
                             {x.data(), w.data(), c.type(), as_floats(rstd), dy.data(), nullptr, dx.data(),
                              dw.data(), t, scratch.data()});
      c.expect("dx", to_host(space, dx, c.type(), n), c.type());
      c.expect("dw", to_host(space, dw, t, shape.dim), t);
    }
  });
}

/// cos and sin of the golden file as the kernel's table, with a row for each of the case's positions.
std::vector<float> rope_table(const GoldenFile& file, const std::string& group) {
  const auto cos = file.f32(group + "/cos"), sin = file.f32(group + "/sin");
  std::vector<float> table;
  for (std::size_t i = 0; i < cos.size(); ++i) table.insert(table.end(), {cos[i], sin[i]});
  return table;
}

TEST(GoldenOps, rope) {
  const GoldenFile file(WEFT_SOURCE_DIR "/tests/golden/ops.h5");
  for_each_case("rope", [&](const OpCase& c) {
    Space space;
    const kernels::RopeShape shape{c.extent("x", 1), c.extent("x", 2), c.extent("x", 3)};
    const std::int64_t n = shape.rows * shape.heads * shape.head_dim;
    std::vector<std::int32_t> rows;  // the table's rows are the case's positions
    for (std::int32_t i = 0; i < shape.rows; ++i) rows.push_back(i);
    const Buffer positions = upload(space, rows), table = upload(space, rope_table(file, c.path()));
    for (const bool forward : {true, false}) {
      const Buffer in = c.device(space, forward ? "x" : "dy"), out = output(space, c.type(), n);
      kernels::rope(space, shape, c.type(), in.data(), as_tokens(positions), as_floats(table), out.data(),
                    forward ? kernels::RopeDirection::forward : kernels::RopeDirection::backward);
      c.expect(forward ? "y" : "dx", to_host(space, out, c.type(), n), c.type());
    }
  });
}

/// Angles are fp32 (Meta's convention), so they are off by up to 3e-7 of themselves.
TEST(GoldenOps, rope_table) {
  const GoldenFile file(WEFT_SOURCE_DIR "/tests/golden/ops.h5");
  for (const auto& name : file.children("rope")) {
    const std::string group = "rope/" + name + "/f32";
    kernels::RopeScaling scaling;
    if (file.has_attr(group, "scaling_factor"))
      scaling = {true, static_cast<float>(file.attr(group, "scaling_factor")),
                 static_cast<float>(file.attr(group, "scaling_low_freq_factor")),
                 static_cast<float>(file.attr(group, "scaling_high_freq_factor")),
                 static_cast<std::int64_t>(file.attr(group, "scaling_original_seq"))};
    const auto positions = file.i32(group + "/positions");
    const auto wanted = rope_table(file, group);
    const std::int64_t width = 2 * file.shape(group + "/cos").at(1), rows = positions.back() + 1;
    std::vector<float> table(static_cast<std::size_t>(rows * width));
    kernels::fill_rope_table(table.data(), rows, width, static_cast<float>(file.attr(group, "theta")),
                             scaling);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::int64_t position = positions[i / static_cast<std::size_t>(width)];
      const std::int64_t column = static_cast<std::int64_t>(i) % width;
      const double exponent = static_cast<double>(column - column % 2) / static_cast<double>(width);
      // The scaled angle may be less than this.
      const double angle = static_cast<double>(position) * std::pow(file.attr(group, "theta"), -exponent);
      EXPECT_NEAR(table[static_cast<std::size_t>(position * width + column)], wanted[i], 1e-7 + 3e-7 * angle)
          << group << " position " << position << " column " << column;
    }
  }
}

TEST(GoldenOps, attention) {
  for_each_case("attention", [](const OpCase& c) {
    Space space;
    const kernels::AttentionShape shape{c.extent("q", 0), c.extent("q", 1), c.extent("q", 2),
                                        c.extent("k", 2), c.extent("q", 3)};
    const std::int64_t n = shape.batch * shape.seq * shape.heads * shape.head_dim,
                       kv = n / shape.heads * shape.kv_heads;
    const std::int64_t rows = shape.batch * shape.heads * shape.seq;
    const Buffer q = c.device(space, "q"), k = c.device(space, "k"), v = c.device(space, "v"),
                 dy = c.device(space, "dy");
    const Buffer o = output(space, c.type(), n), lse = output(space, DType::f32, rows);
    const Buffer scratch = output(
        space, DType::u8, static_cast<std::int64_t>(kernels::attention_scratch_bytes(shape, c.type())));
    kernels::attention(space, shape, c.type(), q.data(), k.data(), v.data(), o.data(), as_floats(lse),
                       scratch.data());
    c.expect("y", to_host(space, o, c.type(), n), c.type(), Rounding::between);
    c.expect("lse", to_host(space, lse, DType::f32, rows), DType::f32);

    const Buffer dq = output(space, c.type(), n), dk = output(space, c.type(), kv),
                 dv = output(space, c.type(), kv);
    const Buffer scratch_grad = output(
        space, DType::u8, static_cast<std::int64_t>(kernels::attention_grad_scratch_bytes(shape, c.type())));
    kernels::attention_grad(space, shape, c.type(),
                            {q.data(), k.data(), v.data(), o.data(), as_floats(lse), dy.data(), dq.data(),
                             dk.data(), dv.data(), scratch_grad.data()});
    c.expect("dq", to_host(space, dq, c.type(), n), c.type(), Rounding::between);
    c.expect("dk", to_host(space, dk, c.type(), kv), c.type(), Rounding::between);
    c.expect("dv", to_host(space, dv, c.type(), kv), c.type(), Rounding::between);
  });
}

TEST(GoldenOps, swiglu) {
  for_each_case("swiglu", [](const OpCase& c) {
    Space space;
    const kernels::SwigluShape shape{c.extent("gate", 0), c.extent("gate", 1), c.extent("gate", 1)};
    const std::int64_t n = shape.rows * shape.dim;
    const Buffer gate = c.device(space, "gate"), up = c.device(space, "up"), dy = c.device(space, "dy");
    const Buffer y = output(space, c.type(), n), dgate = output(space, c.type(), n),
                 dup = output(space, c.type(), n);
    kernels::swiglu(space, shape, c.type(), gate.data(), up.data(), y.data());
    kernels::swiglu_grad(space, shape, c.type(), gate.data(), up.data(), dy.data(), dgate.data(), dup.data());
    c.expect("y", to_host(space, y, c.type(), n), c.type());
    c.expect("dgate", to_host(space, dgate, c.type(), n), c.type());
    c.expect("dup", to_host(space, dup, c.type(), n), c.type());
  });
}

TEST(GoldenOps, cross_entropy) {
  for_each_case("cross_entropy", [](const OpCase& c) {
    Space space;
    const kernels::LossShape shape{c.extent("logits", 0), c.extent("logits", 1)};
    const auto target_ids = c.tokens("targets");
    const Buffer logits = c.device(space, "logits"), targets = upload(space, target_ids);
    const Buffer lse = output(space, DType::f32, shape.rows), totals = output(space, DType::f64, 2);
    const Buffer scratch =
        output(space, DType::u8, static_cast<std::int64_t>(kernels::cross_entropy_scratch_bytes(shape)));
    kernels::cross_entropy(space, shape, c.type(), logits.data(), as_tokens(targets), as_floats(lse),
                           as_doubles(totals), scratch.data());
    const Array sum_and_count = to_host(space, totals, DType::f64, 2);
    c.expect("y", {sum_and_count[0]}, DType::f32);
    EXPECT_EQ(sum_and_count[1],
              std::count_if(target_ids.begin(), target_ids.end(), [](std::int32_t t) { return t >= 0; }));

    const Buffer dlogits = output(space, c.type(), shape.rows * shape.vocab);
    kernels::cross_entropy_grad(space, shape, c.type(), logits.data(), as_tokens(targets), as_floats(lse),
                                dlogits.data());
    // The probabilities are exp(logit - lse) with an fp32 lse, which is off by up to half a unit in its last
    // place.
    const Array lse_values = to_host(space, lse, DType::f32, shape.rows);
    const double lse_error = std::ldexp(*std::max_element(lse_values.begin(), lse_values.end()), -24);
    c.expect("dlogits", to_host(space, dlogits, c.type(), shape.rows * shape.vocab), c.type(), Rounding::once,
             lse_error);
  });
}

TEST(GoldenOps, linear) {
  for_each_case("linear", [](const OpCase& c) {
    Space space;
    const std::int64_t rows = c.extent("x", 0), in = c.extent("x", 1), out = c.extent("w", 0);
    const Buffer x = c.device(space, "x"), w = c.device(space, "w"), dy = c.device(space, "dy");
    const auto check = [&](const char* name, kernels::MatmulForm form, const Buffer& a, const Buffer& b,
                           std::int64_t count) {
      for (DType result : gradient_types(c)) {
        kernels::Matmul matmul({form, rows, in, out, c.type(), result});
        const Buffer product = output(space, result, count);
        const Buffer scratch = output(space, DType::u8, static_cast<std::int64_t>(matmul.scratch_bytes()));
        matmul.run(space, a.data(), b.data(), product.data(), scratch.data());
        c.expect(name, to_host(space, product, result, count), result);
      }
    };
    check("y", kernels::MatmulForm::forward, x, w, rows * out);
    check("dx", kernels::MatmulForm::dgrad, dy, w, rows * in);
    check("dw", kernels::MatmulForm::wgrad, dy, x, out * in);
  });
}

}  // namespace
}  // namespace weft::test
