// Products that a library makes of operands in Float8 as they are.
#pragma once

#include <memory>

#include "kernels/float8_matmul.hpp"

namespace weft::kernels {

/// The library's product of this shape (make_float8_matmul); null where the device or the library has none.
std::unique_ptr<Float8Matmul> make_narrow_product(const MatmulSpec& spec, DType format, Float8Scales scales);

}  // namespace weft::kernels
