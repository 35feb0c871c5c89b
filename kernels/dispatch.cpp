#include "kernels/dispatch.hpp"

#include <fmt/core.h>

#include <stdexcept>

namespace weft::kernels {

void fail_dtype(const char* op, DType t) {
  throw std::logic_error(fmt::format("{}: no kernel for {} (f32 and bf16 exist)", op, name_of(t)));
}

}  // namespace weft::kernels
