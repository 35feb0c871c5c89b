// Internal, host only: bf16 matrix products with fp32 sums, on tiles.hpp. One thread sums an element, in the
// order of k, so its bits do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/matmul_spec.hpp"
#include "kernels/space.hpp"

namespace weft::kernels::bf16_engine {

/// c [m, n] = A [m, k] B [k, n], or += it; `sizes` says how a and b are stored. The right operand is packed a
/// chunk at a time by the thread that multiplies it. The left one is packed beforehand, unless it can be read
/// as it stands. It needs an engine.
class Product {
 public:
  /// `result` is f32 or bf16, and is rounded once.
  Product(const MatmulSizes& sizes, DType result, bool add);

  std::size_t scratch_bytes() const;
  void run(Space& space, const void* a, const void* b, void* c, void* scratch) const;

 private:
  bool packs_left() const;
  std::size_t left_bytes() const;

  MatmulSizes sizes_;  ///< sizes of the product that is made: the given one, or B' A'
  DType result_;
  bool add_;
  bool swapped_;  ///< whether it is B' A', and c is written transposed
};

}  // namespace weft::kernels::bf16_engine
