// Internal, for the host (device sources see declarations): computes rows of bf16 by AVX-512, with its own
// instruction for rounding and its own scaling for powers. The portable loops need three times the
// instructions, and would wait for these, not for memory. Sums and powers are fp32.
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/dtype.hpp"
#include "kernels/bf16_engine/tiles.hpp"

namespace weft::kernels::bf16_engine {

/// Whether rows of this type are computed here; never on a device.
inline bool serves_rows([[maybe_unused]] DType t) {
  if constexpr (device_is_host())
    return serves(t);
  else
    return false;
}

/// SwiGLU of a row of n elements. `stride` leads from a gate to that of the next row, which is fetched.
void swiglu_row(std::int64_t n, std::int64_t stride, const bf16* gate, const bf16* up, bf16* out);
void swiglu_grad_row(std::int64_t n, std::int64_t stride, const bf16* gate, const bf16* up, const bf16* dout,
                     bf16* dgate, bf16* dup);

float largest_of_row(std::int64_t n, const bf16* z);
/// The sum of e^(z - shift) over a row.
float powers_of_row(std::int64_t n, const bf16* z, float shift);
/// to = e^(z - shift) over a row; `to` may be z.
void softmax_row(std::int64_t n, const bf16* z, float shift, bf16* to);

}  // namespace weft::kernels::bf16_engine
