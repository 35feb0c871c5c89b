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
  /// The token of the first logit, where a rank has those for tokens [first, first + vocab) of a larger
  /// vocabulary.
  std::int64_t first = 0;
};

/// Writes the log-sum-exp of each row to lse [rows] (0 for ignored rows), and totals [2]: the sum of -log
/// p(target) over the valid rows, in fp64 and an order that depends on `rows` only, and their count. logits
/// [rows, vocab] of type `t` (f32 or bf16; std::logic_error otherwise) are only read; targets [rows] are in
/// [0, vocab), or negative, which ignores the row.
void cross_entropy(Space& space, LossShape shape, DType t, const void* logits, const std::int32_t* targets,
                   float* lse, double* totals, void* scratch);
std::size_t cross_entropy_scratch_bytes(LossShape shape);

/// Writes what the loss of a vocabulary that is cut into parts needs of the logits of one part. parts
/// [rows, 3] is each row's largest logit, the sum of the exponentials of the logits less that one, and the
/// target's logit, or 0 where it is not among these. Ignored rows have zeros.
void cross_entropy_part(Space& space, LossShape shape, DType t, const void* logits,
                        const std::int32_t* targets, float* parts);
/// Writes lse and totals, as cross_entropy() does, from what cross_entropy_part() has written on all ranks:
/// `parts` [ranks, rows, 3]. The sums are added in the order of the ranks, so all ranks have the same
/// results. `scratch` is as for cross_entropy().
void cross_entropy_of_parts(Space& space, std::int64_t rows, std::int64_t ranks, const float* parts,
                            const std::int32_t* targets, float* lse, double* totals, void* scratch);

/// dlogits = softmax(logits) - onehot(target), with zeros for ignored rows. This is the gradient of the SUM
/// over rows, not divided by the count. `lse` is the forward's. dlogits [rows, vocab] of type `t` may be
/// logits.
void cross_entropy_grad(Space& space, LossShape shape, DType t, const void* logits,
                        const std::int32_t* targets, const float* lse, void* dlogits);

}  // namespace weft::kernels
