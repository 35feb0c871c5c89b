// Cross entropy of logits against target tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

struct LossShape {
  std::int64_t rows;   ///< B*T
  std::int64_t vocab;  ///< V
};

/// Writes the log-sum-exp of each row to lse [rows] (0 for ignored rows), and totals [2]: the sum of -log
/// p(target) over the valid rows, in fp64 and an order that depends on `rows` only, and their count. logits
/// [rows, vocab] of type `t` (f32 or bf16; std::logic_error otherwise) are only read; targets [rows] are in
/// [0, vocab), or negative, which ignores the row.
void cross_entropy(Space& space, LossShape shape, DType t, const void* logits, const std::int32_t* targets,
                   float* lse, double* totals, void* scratch);
std::size_t cross_entropy_scratch_bytes(LossShape shape);

/// dlogits = softmax(logits) - onehot(target), with zeros for ignored rows. This is the gradient of the SUM
/// over rows, not divided by the count. `lse` is the forward's. dlogits [rows, vocab] of type `t` may be
/// logits.
void cross_entropy_grad(Space& space, LossShape shape, DType t, const void* logits,
                        const std::int32_t* targets, const float* lse, void* dlogits);

}  // namespace weft::kernels
