// Hosts have no products in Float8.
#include "kernels/narrow_product.hpp"

namespace weft::kernels {

std::unique_ptr<Float8Matmul> make_narrow_product(const MatmulSpec& /*spec*/, DType /*format*/,
                                                  Float8Scales /*scales*/) {
  return nullptr;
}

}  // namespace weft::kernels
