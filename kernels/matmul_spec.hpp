// Internal: turns the three forms into one product of row-major matrices, c [m, n] = A [m, k] B [k, n].
#pragma once

#include <fmt/core.h>

#include <stdexcept>

#include "kernels/dispatch.hpp"
#include "kernels/matmul.hpp"

namespace weft::kernels {

struct MatmulSizes {
  std::int64_t m, n, k;
  bool a_transposed;  ///< whether a is stored as [k, m]
  bool b_transposed;  ///< whether b is stored as [n, k]
};

inline MatmulSizes sizes_of(const MatmulSpec& s) {
  switch (s.form) {
    case MatmulForm::forward: return {s.rows, s.out, s.in, false, true};
    case MatmulForm::dgrad: return {s.rows, s.in, s.out, false, false};
    case MatmulForm::wgrad: return {s.out, s.in, s.rows, true, false};
  }
  throw std::logic_error("matmul: unknown form");
}

inline void check(const MatmulSpec& s) {
  if (s.type != DType::f32 && s.type != DType::bf16) fail_dtype("matmul", s.type);
  if (s.result != DType::f32 && s.result != s.type) fail_dtype("matmul result", s.result);
  if (s.rows < 1 || s.in < 1 || s.out < 1)
    throw std::logic_error(
        fmt::format("matmul: rows {}, in {}, out {} (all must be positive)", s.rows, s.in, s.out));
}

}  // namespace weft::kernels
