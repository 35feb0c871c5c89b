// Internal, host only: fp32 matrix products on bf16 tiles. Each operand is taken as the sum of three bf16
// values, which hold the 24 bits of an fp32 one. Of their nine products, the six that count in fp32 are
// summed: Henry, Tang, Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
// higher-precision computations", ARITH 2019. The products are as accurate as fp32 arithmetic and, on AMX,
// about 1.5 times as fast.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/bf16_engine/tiles.hpp"
#include "kernels/matmul_spec.hpp"
#include "kernels/space.hpp"

namespace weft::kernels::bf16_engine {

/// c [m, n] = A [m, k] B [k, n], or += it, all in fp32; `sizes` says how a and b are stored. Sums run over at
/// most 512 of k, and are added in order, so the bits do not depend on the number of threads. Products with
/// an infinity, or with a value from 3.396e38 on, are NaN. AMX takes everything below 2^-126 as zero: pieces,
/// products and sums. So all bits of an operand count from 2^-103 on, and all bits of a product of two from
/// 2^-102 on. It needs Kind::tiles.
class SplitProduct {
 public:
  SplitProduct(const MatmulSizes& sizes, bool add);

  std::size_t scratch_bytes() const;
  void run(Space& space, const float* a, const float* b, float* c, void* scratch) const;

 private:
  MatmulSizes sizes_;  ///< sizes of the product that is made: the given one, or B' A'
  bool add_;
  bool swapped_;  ///< whether it is B' A', and c is written transposed
};

}  // namespace weft::kernels::bf16_engine
