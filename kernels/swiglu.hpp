// SwiGLU (Shazeer, 2020): out = silu(gate) * up.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// Tells where rows of gate and up begin: next to each other in one array [rows, 2 dim], or each in an array
/// of its own.
struct SwigluShape {
  std::int64_t rows;    ///< B*T
  std::int64_t dim;     ///< F
  std::int64_t stride;  ///< elements from a row of gate (and of up) to the next: 2 dim or dim
};

/// out = silu(gate) * up, computed in fp32 and rounded once. out [rows, dim] is dense. The type `t` is f32 or
/// bf16 (std::logic_error otherwise).
void swiglu(Space& space, SwigluShape shape, DType t, const void* gate, const void* up, void* out);

/// dgate and dup, laid out as gate and up, from dout [rows, dim] and the forward's inputs. dgate may be gate
/// and dup may be up.
void swiglu_grad(Space& space, SwigluShape shape, DType t, const void* gate, const void* up, const void* dout,
                 void* dgate, void* dup);

}  // namespace weft::kernels
