// Sums the slices of a reduce-scatter on the device, in rank order.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "base/write_mode.hpp"

namespace weft::comm::detail {

/// The operands: out[i] = ((acc + s_0[i]) + s_1[i]) + ... in fp32. s_own is the slice of rank `rank` itself;
/// the others lie in `pieces`, by rank without this one, `count` elements each. All of it is device memory.
struct DeviceSum {
  const void* own = nullptr;
  const void* pieces = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  int rank = 0;
  int size = 1;
  DType wire = DType::f32;
  DType out_type = DType::f32;
  WriteMode write = WriteMode::replace;
};
/// Enqueues the sum on `stream` (cudaStream_t); returns the launch's cudaError_t.
int ordered_sum_on_device(void* stream, const DeviceSum& sum);

}  // namespace weft::comm::detail
