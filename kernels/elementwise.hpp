// Adds and converts arrays element by element.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// out = a + b over n elements of type `t` (f32 or bf16; std::logic_error otherwise), in fp32. out may be a
/// or b.
void add(Space& space, std::int64_t n, DType t, const void* a, const void* b, void* out);

/// Converts n elements between f32 and bf16 (round to nearest even); equal types copy. The ranges must not
/// overlap.
void cast(Space& space, std::int64_t n, DType from, const void* in, DType to, void* out);

}  // namespace weft::kernels
