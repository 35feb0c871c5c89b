// RMSNorm (Zhang & Sennrich, 2019).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

struct RowShape {
  std::int64_t rows;  ///< B*T
  std::int64_t dim;   ///< C
};

/// y[r, :] = x[r, :] * rstd[r] * w, with rstd[r] = 1 / sqrt(mean(x[r, :]^2) + eps). x and y [rows, dim] are
/// of type `t` (f32 or bf16), w [dim] is of that type or f32 (std::logic_error otherwise); rstd [rows] is
/// fp32. Sums and products are fp32, rounded once. y may be x.
void rms_norm(Space& space, RowShape shape, DType t, const void* x, const void* w, DType w_type, float eps,
              void* y, float* rstd);

/// sum = a + b, rounded to `t`, and the rms_norm of that sum, with the bits of add and rms_norm one after the
/// other. sum may be a or b.
void add_rms_norm(Space& space, RowShape shape, DType t, const void* a, const void* b, const void* w,
                  DType w_type, float eps, void* sum, void* y, float* rstd);

/// The operands of rms_norm_grad. x, dy, dx and sum [rows, dim] have the call's type; dx may be dy or sum.
struct RmsNormGrad {
  const void* x;
  const void* w;      ///< [dim] of w_type
  DType w_type;       ///< the call's type, or f32
  const float* rstd;  ///< [rows], from the forward pass
  const void* dy;
  const void* sum;  ///< what is added to dx before it is rounded, or null
  void* dx;
  void* dw;       ///< [dim] of dw_type, written
  DType dw_type;  ///< f32 or bf16
  void* scratch;  ///< rms_norm_grad_scratch_bytes(shape): fp32 partial sums of dw for each block of rows
};

/// dx and dw of rms_norm. dw is summed in fp32 over blocks of rows whose number depends on `rows` only, then
/// over the blocks in order: its bits do not depend on the number of threads.
void rms_norm_grad(Space& space, RowShape shape, DType t, const RmsNormGrad& grad);
/// The bytes of RmsNormGrad::scratch in this build.
std::size_t rms_norm_grad_scratch_bytes(RowShape shape);
/// The bytes of RmsNormGrad::scratch in a build for hosts, or in one for GPUs.
std::size_t rms_norm_grad_scratch_bytes(RowShape shape, bool on_host);

}  // namespace weft::kernels
