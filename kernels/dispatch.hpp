// Internal: leads from a runtime DType to the storage type of a kernel.
#pragma once

#include "base/dtype.hpp"

namespace weft::kernels {

/// Throws the std::logic_error that `op` has no kernel for `t`.
[[noreturn]] void fail_dtype(const char* op, DType t);

/// Calls f(float{}) or f(bf16{}); throws std::logic_error for other types.
template <class F>
void with_float_type(const char* op, DType t, F&& f) {
  if (t == DType::f32)
    f(float{});
  else if (t == DType::bf16)
    f(bf16{});
  else
    fail_dtype(op, t);
}

}  // namespace weft::kernels
