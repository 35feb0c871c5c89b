// Internal, host only: fp32 matrix products on bf16 tiles. Each operand is taken as the sum of three bf16
// values, which hold the 24 bits of an fp32 one, and of their nine products the six that count in fp32 are
// summed: Henry, Tang, Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
// higher-precision computations", ARITH 2019. As accurate as fp32 arithmetic, on AMX at more than twice its
// speed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/bf16_engine/tiles.hpp"
#include "kernels/matmul_spec.hpp"
#include "kernels/space.hpp"

namespace weft::kernels::bf16_engine {

/// c [m, n] = A [m, k] B [k, n], or += it, all fp32; `sizes` says how a and b are stored. Sums run over 512
/// of k at a time, and these are added in order: the bits depend on no number of threads. What is not finite
/// in an operand makes what it meets in c not finite (a NaN also where fp32 arithmetic would have an
/// infinity); values above 3.39e38 are infinite, and below 2^-108 bits are lost. Needs Kind::tiles.
class SplitProduct {
 public:
  SplitProduct(const MatmulSizes& sizes, bool add);

  std::size_t scratch_bytes() const;
  void run(Space& space, const float* a, const float* b, float* c, void* scratch) const;

 private:
  MatmulSizes sizes_;  ///< of the product that is made: the given one, or B' A'
  bool add_;
  bool swapped_ = false;  ///< it is B' A', and c is written transposed
};

}  // namespace weft::kernels::bf16_engine
