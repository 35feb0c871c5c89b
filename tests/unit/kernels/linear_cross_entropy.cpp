#include "kernels/linear_cross_entropy.hpp"

#include "kernels/cross_entropy.hpp"
#include "kernels/matmul.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

constexpr std::int64_t rows = 37, in = 24, vocab = 65;

struct Result {
  Array totals, dh, dw;
  bool operator==(const Result&) const = default;
};

struct Inputs {
  explicit Inputs(DType t)
      : h(random(rows * in, t, 1, 1.0)),
        w(random(vocab * in, t, 2, 1.0)),
        targets(random_tokens(rows, vocab, 5)) {
    targets[3] = -1;
    targets[30] = -100;
  }
  Array h, w;
  Tokens targets;
};

Result in_chunks(const Inputs& x, std::int64_t chunk, DType t, DType dw_type) {
  LinearCrossEntropy loss({rows, in, vocab, chunk, t, dw_type});
  const Device h(x.h, t), w(x.w, t), dh(rows * in, t), dw(vocab * in, dw_type), totals(2, DType::f64);
  const DeviceTokens targets(x.targets);
  loss.gradients(space(), h.data(), w.data(), targets.data(), totals.as<double>(), dh.data(), dw.data(),
                 scratch(loss.gradients_scratch_bytes()).data());
  Result result{totals.read(), dh.read(), dw.read()};
  loss.loss(space(), h.data(), w.data(), targets.data(), totals.as<double>(),
            scratch(loss.loss_scratch_bytes()).data());
  EXPECT_EQ(totals.read(), result.totals) << "without gradients";
  return result;
}

/// The kernels that it stands for, run one after another on whole logits.
Result whole(const Inputs& x, DType t, DType dw_type) {
  const Device h(x.h, t), w(x.w, t), logits(rows * vocab, t), lse(rows, DType::f32), totals(2, DType::f64);
  const Device dh(rows * in, t), dw(vocab * in, dw_type);
  const DeviceTokens targets(x.targets);
  const auto run = [](MatmulForm form, DType type, DType result, const Device& a, const Device& b,
                      const Device& c) {
    Matmul matmul({form, rows, in, vocab, type, result});
    matmul.run(space(), a.data(), b.data(), c.data(), scratch(matmul.scratch_bytes()).data());
  };
  run(MatmulForm::forward, t, t, h, w, logits);
  cross_entropy(space(), {rows, vocab}, t, logits.data(), targets.data(), lse.as<float>(),
                totals.as<double>(), scratch(cross_entropy_scratch_bytes({rows, vocab})).data());
  cross_entropy_grad(space(), {rows, vocab}, t, logits.data(), targets.data(), lse.as<float>(),
                     logits.data());
  run(MatmulForm::dgrad, t, t, logits, w, dh);
  run(MatmulForm::wgrad, t, dw_type, logits, h, dw);
  return {totals.read(), dh.read(), dw.read()};
}

struct Types {
  DType t, dw;
};
constexpr Types type_pairs[] = {
    {DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}};

TEST(LinearCrossEntropy, OneChunkHasTheBitsOfTheKernelsItStandsFor) {
  for (const auto& [t, dw] : type_pairs)
    for (const std::int64_t chunk : {rows, rows + 100}) {
      SCOPED_TRACE(testing::Message() << name_of(t) << " " << name_of(dw) << " chunk " << chunk);
      const Inputs x(t);
      EXPECT_EQ(in_chunks(x, chunk, t, dw), whole(x, t, dw));
    }
}

TEST(LinearCrossEntropy, ChunksChangeTheSumOfTheWeightsGradientOnly) {
  for (const auto& [t, dw] : type_pairs)
    for (const std::int64_t chunk : {1, 5, 18, 36}) {
      SCOPED_TRACE(testing::Message() << name_of(t) << " " << name_of(dw) << " chunk " << chunk);
      const Inputs x(t);
      const Result got = in_chunks(x, chunk, t, dw), expected = whole(x, t, dw);
      EXPECT_TRUE(close(got.totals, expected.totals, 1e-6));
      EXPECT_EQ(got.totals[1], 35);
      EXPECT_TRUE(close(got.dh, expected.dh, tolerance(t)));
      EXPECT_TRUE(close(got.dw, expected.dw, tolerance(dw)));
    }
}

/// Sums in bf16 of bf16 chunks would be off by more than one rounding.
TEST(LinearCrossEntropy, ManyChunksInBf16AreRoundedOnce) {
  const Inputs x(DType::bf16);
  const Array wide = in_chunks(x, 1, DType::bf16, DType::f32).dw;
  const Array narrow = in_chunks(x, 1, DType::bf16, DType::bf16).dw;
  for (std::size_t i = 0; i < wide.size(); ++i)
    ASSERT_EQ(narrow[i], double(to_float(from_float<bf16>(float(wide[i]))))) << i;
}

}  // namespace
}  // namespace weft::kernels
