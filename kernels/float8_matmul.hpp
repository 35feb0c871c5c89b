// Products of operands in Float8.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/choices.hpp"
#include "kernels/matmul.hpp"

namespace weft::kernels {

/// What tells a product of operands in Float8 from others.
struct Float8MatmulSpec {
  MatmulSpec shape;     ///< that of the decoded operands: its type and result are bf16
  DType format;         ///< that of x: e4m3 or e5m2; w is e4m3
  Float8Scales scales;  ///< those of x; w has one
};

/// The product in words: "dgrad, 8192 rows, 4096 in, 14336 out, e5m2 by e4m3 to bf16, rowwise, added". It is
/// its key in ProductAlgorithms.
std::string name_of(const Float8MatmulSpec& spec);

/// A product y = x w^T or dx = dy w (MatmulForm::forward, MatmulForm::dgrad) of x in e4m3 or e5m2, whose rows
/// have scales (or all of them one), and w in e4m3, which has one scale. The result is bf16; sums are fp32.
class Float8Matmul {
 public:
  virtual ~Float8Matmul() = default;

  const Float8MatmulSpec& spec() const { return spec_; }
  /// These are as Matmul has them. Where operands are decoded there is no algorithm to choose: none is
  /// offered, and on a device take() returns false where the map has one for this product.
  virtual std::vector<std::string> algorithms(int most) const = 0;
  virtual std::string algorithm() const = 0;
  virtual bool take(const ProductAlgorithms& algorithms) = 0;

  /// Bytes of device memory that run() needs, 256-byte aligned.
  virtual std::size_t scratch_bytes() const = 0;

  /// All are dense, row-major and on the device; `scale` has a number for each row of x.
  virtual void run(Space& space, const void* x8, const float* scale, const void* w8, const float* scale_of_w,
                   void* y, void* scratch) = 0;

 protected:
  explicit Float8Matmul(const Float8MatmulSpec& spec) : spec_(spec) {}

 private:
  Float8MatmulSpec spec_;
};

/// The bytes of both operands as bf16, each aligned: what is decoded, where no library multiplies Float8.
std::size_t decoded_bytes(const MatmulSpec& spec);

/// Makes the product of this shape. `spec` is that of the decoded operands: its type and result are bf16.
/// `format` is that of x. On CUDA cuBLASLt makes it, with widths that 16 divides, where the device multiplies
/// Float8; rows with scales of their own since 12.9, on Hopper. Otherwise operands are decoded into bf16,
/// which they are exactly, and multiplied as such; a warning says so where the device is a GPU.
std::unique_ptr<Float8Matmul> make_float8_matmul(const MatmulSpec& spec, DType format, Float8Scales scales);

}  // namespace weft::kernels
