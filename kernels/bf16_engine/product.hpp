// Internal, host only: bf16 matrix products with fp32 sums on tiles.hpp. An element is summed by one
// thread, k in order: its bits depend on no number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/matmul_spec.hpp"
#include "kernels/space.hpp"

namespace weft::kernels::bf16_engine {

/// c [m, n] = A [m, k] B [k, n], or += it; `sizes` says how a and b are stored. The right operand is packed a
/// chunk at a time by who multiplies it, the left one beforehand, unless it can be read as it stands. Needs
/// an engine.
class Product {
 public:
  /// `result`: f32 or bf16, rounded once.
  Product(const MatmulSizes& sizes, DType result, bool add);

  std::size_t scratch_bytes() const;
  void run(Space& space, const void* a, const void* b, void* c, void* scratch) const;

 private:
  bool packs_left() const;
  std::size_t left_bytes() const;

  MatmulSizes sizes_;  ///< of the product that is made: the given one, or B' A'
  DType result_;
  bool add_;
  bool swapped_;  ///< it is B' A', and c is written transposed
};

}  // namespace weft::kernels::bf16_engine
