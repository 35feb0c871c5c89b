// Tests the head and its loss a few tokens at a time, with the scratch that the kernels really ask for.
#include <gtest/gtest.h>

#include <algorithm>

#include "../graph/small_model.hpp"
#include "exec/scratch.hpp"

namespace weft::test {
namespace {

TEST(Head, LogitsNeverExistWhole) {
  constexpr std::int64_t
      vocab = 160000,
      seq = 256;  // so many that a device's matmul needs less scratch than half of the logits
  const auto plan_of = [&](std::int64_t rows, DType compute) {
    exec::Matmuls matmuls;
    SmallModel m;
    m.spec.vocab = vocab;
    m.seq = seq;
    m.options.head_rows = rows;
    m.options.precision.params = compute;
    return plan::lower(m.step(), exec::scratch_query(matmuls));
  };
  const auto largest = [](const plan::Plan& plan) {
    std::int64_t bytes = 0;
    for (const plan::Buffer& b : plan.buffers) bytes = std::max(bytes, b.bytes);
    return bytes;
  };
  for (const DType compute : {DType::f32, DType::bf16}) {
    const std::int64_t logits =
        SmallModel{}.batch * seq * vocab * static_cast<std::int64_t>(size_of(compute));
    const plan::Plan whole = plan_of(0, compute), chunked = plan_of(32, compute);
    EXPECT_GE(largest(whole), logits);
    EXPECT_LT(largest(chunked), logits / 2);
    EXPECT_LT(chunked.live_bytes, whole.live_bytes - logits / 2);
  }
}

}  // namespace
}  // namespace weft::test
