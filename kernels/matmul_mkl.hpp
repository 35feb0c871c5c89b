// Internal, host only: fp32 products by MKL, in builds that have it (cmake/weft_mkl.cmake).
#pragma once

#include "base/dtype.hpp"
#include "kernels/matmul_spec.hpp"

namespace weft::kernels::mkl {

/// Whether MKL takes operands of this type: fp32, on an Intel processor with AVX-512 that ONEDNN_MAX_CPU_ISA
/// allows. On other processors it was not measured against oneDNN.
bool serves(DType t);

/// c = A B in fp32, or += it; `sizes` says how a and b are stored. The bits depend neither on the number of
/// threads nor on the operands' alignment (MKL's strict reproducible mode). MKL packs operands into memory of
/// its own, about 10 MiB a thread, beside the plan. Use it only where serves() says so.
struct Product {
  MatmulSizes sizes;
  bool add;
  int threads;

  void run(const void* a, const void* b, void* c) const;
};

}  // namespace weft::kernels::mkl
