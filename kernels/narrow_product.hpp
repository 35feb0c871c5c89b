// Internal: a product of operands in Float8 that a library makes without decoding them.
#pragma once

#include <memory>

#include "kernels/matmul.hpp"

namespace weft::kernels {

class NarrowProduct {
 public:
  virtual ~NarrowProduct() = default;
  virtual std::size_t scratch_bytes() const = 0;
  /// As Float8Matmul::run.
  virtual void run(Space& space, const void* x8, const float* scale, const void* w8, const float* scale_of_w,
                   void* y, void* scratch) = 0;
};

/// The product of this shape; null where the device or the library has none. `spec` is that of the decoded
/// operands.
std::unique_ptr<NarrowProduct> make_narrow_product(const MatmulSpec& spec, DType format);

}  // namespace weft::kernels
