// Stands in for MKL in builds without it: nobody asks for its products there.
#include "kernels/matmul_mkl.hpp"

namespace weft::kernels::mkl {

bool serves(DType /*t*/) {
  return false;
}
void Product::run(const void* /*a*/, const void* /*b*/, void* /*c*/) const {
  throw std::logic_error("this build has no MKL");
}

}  // namespace weft::kernels::mkl
