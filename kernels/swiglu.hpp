// SwiGLU (Shazeer, 2020): out = silu(gate) * up.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// out = silu(gate) * up over n elements of type `t` (f32 or bf16; std::logic_error otherwise), in fp32,
/// rounded once.
void swiglu(Space& space, std::int64_t n, DType t, const void* gate, const void* up, void* out);

/// dgate and dup from dout and the forward's inputs. dgate may be gate and dup may be up.
void swiglu_grad(Space& space, std::int64_t n, DType t, const void* gate, const void* up, const void* dout,
                 void* dgate, void* dup);

}  // namespace weft::kernels
