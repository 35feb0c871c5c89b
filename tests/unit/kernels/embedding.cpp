#include "kernels/embedding.hpp"

#include <stdexcept>

#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

TEST(Embedding, GathersRows) {
  for (DType t : float_types)
    for (std::int64_t rows : odd_sizes) {
      const EmbeddingShape shape{rows, 37, 19};
      const Tokens tokens = random_tokens(rows, shape.vocab, 1);
      const Array table = random(shape.vocab * shape.dim, t, 2);
      const Device out(rows * shape.dim, t);
      embedding(space(), shape, t, DeviceTokens(tokens).data(), Device(table, t).data(), out.data());
      EXPECT_EQ(out.read(), reference::embedding(shape, tokens, table)) << name_of(t) << " rows " << rows;
    }
}

TEST(Embedding, GradientWritesTheWholeTable) {
  for (DType t : float_types)
    for (DType grad : float_types)
      for (std::int64_t rows : odd_sizes)
        for (std::int64_t dim : {1, 17, 300}) {
          const EmbeddingShape shape{rows, 41, dim};
          const Tokens tokens = random_tokens(rows, shape.vocab - 3, 3);  // the last three ids do not occur
          const Array dout = random(rows * dim, t, 4);
          const Device dtable(shape.vocab * dim, grad);
          embedding_grad(space(), shape, t, DeviceTokens(tokens).data(), Device(dout, t).data(), grad,
                         dtable.data(), scratch(embedding_grad_scratch_bytes(shape)).data());
          EXPECT_TRUE(close(dtable.read(), reference::embedding_grad(shape, tokens, dout), tolerance(grad)))
              << name_of(t) << " rows " << rows << " dim " << dim;
        }
}

/// A table in parts gives each row in one of them, and zeros in the others; gradients are parts of the whole.
TEST(Embedding, PartsOfATableAreTheWhole) {
  constexpr std::int64_t rows = 50, parts = 3, own = 7, dim = 19;
  const EmbeddingShape all{rows, parts * own, dim};
  const Tokens tokens = random_tokens(rows, all.vocab, 1);
  for (const DType t : float_types) {
    const Array table = random(all.vocab * dim, t, 2), dout = random(rows * dim, t, 3);
    Array sum(static_cast<std::size_t>(rows * dim), 0.0);
    const Array gradient = reference::embedding_grad(all, tokens, dout);
    for (std::int64_t part = 0; part < parts; ++part) {
      const EmbeddingShape shape{rows, own, dim, part * own};
      const auto from = table.begin() + part * own * dim;
      const Device out(rows * dim, t), dtable(own * dim, DType::f32);
      embedding(space(), shape, t, DeviceTokens(tokens).data(),
                Device(Array(from, from + own * dim), t).data(), out.data());
      const Array read = out.read();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += read[i];
      embedding_grad(space(), shape, t, DeviceTokens(tokens).data(), Device(dout, t).data(), DType::f32,
                     dtable.data(), scratch(embedding_grad_scratch_bytes(shape)).data());
      const auto expected = gradient.begin() + part * own * dim;
      EXPECT_TRUE(close(dtable.read(), Array(expected, expected + own * dim), tolerance(DType::f32)))
          << name_of(t) << " part " << part;
    }
    EXPECT_EQ(sum, reference::embedding(all, tokens, table)) << name_of(t);
  }
}

TEST(Embedding, GradientAddsInOrderOfRows) {
  // In fp32, (2^24 + 1) - 2^24 is 0, and 2^24 - 2^24 + 1 is 1, so the order shows.
  const EmbeddingShape shape{3, 2, 1};
  const Tokens tokens = {1, 1, 1};
  const auto sum = [&](const Array& dout) {
    const Device dtable(2, DType::f32);
    embedding_grad(space(), shape, DType::f32, DeviceTokens(tokens).data(), Device(dout, DType::f32).data(),
                   DType::f32, dtable.data(), scratch(embedding_grad_scratch_bytes(shape)).data());
    return dtable.read();
  };
  EXPECT_EQ(sum({16777216, 1, -16777216}), (Array{0, 0}));
  EXPECT_EQ(sum({16777216, -16777216, 1}), (Array{0, 1}));
}

TEST(Embedding, RefusesOtherTypes) {
  EXPECT_THROW(embedding(space(), {1, 1, 1}, DType::f64, nullptr, nullptr, nullptr), std::logic_error);
}

}  // namespace
}  // namespace weft::kernels
