// Products of operands in Float8.
#pragma once

#include <memory>

#include "base/choices.hpp"
#include "kernels/matmul.hpp"

namespace weft::kernels {

/// A product y = x w^T or dx = dy w (MatmulForm::forward, MatmulForm::dgrad) of x in e4m3 or e5m2, whose rows
/// have scales (or all of them one), and w in e4m3, which has one scale. The result is bf16; sums are fp32.
class Float8Matmul {
 public:
  virtual ~Float8Matmul() = default;

  /// Bytes of device memory that run() needs, 256-byte aligned.
  virtual std::size_t scratch_bytes() const = 0;

  /// All are dense, row-major and on the device; `scale` has a number for each row of x.
  virtual void run(Space& space, const void* x8, const float* scale, const void* w8, const float* scale_of_w,
                   void* y, void* scratch) = 0;
};

/// The bytes of both operands as bf16, each aligned: what is decoded, where no library multiplies Float8.
std::size_t decoded_bytes(const MatmulSpec& spec);

/// Makes the product of this shape. `spec` is that of the decoded operands: its type and result are bf16.
/// `format` is that of x. On CUDA cuBLASLt makes it, with widths that 16 divides, where the device multiplies
/// Float8; rows with scales of their own since 12.9, on Hopper. Otherwise operands are decoded into bf16,
/// which they are exactly, and multiplied as such; a warning says so where the device is a GPU.
std::unique_ptr<Float8Matmul> make_float8_matmul(const MatmulSpec& spec, DType format, Float8Scales scales);

}  // namespace weft::kernels
