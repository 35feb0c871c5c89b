// Numbers to measure kernels with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.hpp"
#include "kernels/memory.hpp"

namespace weft::measure {

/// Normal numbers for operands. A device that is limited by its power multiplies zeros faster, and so does
/// AMX.
class Noise {
 public:
  explicit Noise(kernels::Space& space);

  /// So many numbers of type f32, bf16, e4m3 or e5m2 in device memory: the same `period` ones again and
  /// again. They are there for the space's next kernels. Throws std::logic_error for another type.
  kernels::Buffer buffer(std::int64_t elements, DType type) const;
  static constexpr std::size_t period = 1 << 16;
  /// Scales for so many rows of an operand in Float8: powers of two, as all scales are (kernels/float8.hpp),
  /// and one for all rows, which suits Float8Scales::tensorwise, too.
  kernels::Buffer scales(std::int64_t rows) const;

 private:
  const void* numbers(DType type) const;

  kernels::Space& space_;
  std::vector<float> floats_;
  std::vector<bf16> halves_;
  std::vector<e4m3> e4m3s_;
  std::vector<e5m2> e5m2s_;
};

}  // namespace weft::measure
