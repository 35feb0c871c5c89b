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

/// Makes element i of the sum. There is no multiplication here, and so nothing that a compiler could
/// contract: the bits are those of the host's sum.
template <class Wire, class Out>
WEFT_FUNCTION void sum_element(const DeviceSum& s, std::int64_t i) {
  const auto* own = static_cast<const Wire*>(s.own);
  const auto* pieces = static_cast<const Wire*>(s.pieces);
  auto* out = static_cast<Out*>(s.out);
  float acc = 0;
  for (int r = 0; r < s.size; ++r) {
    const Wire x = r == s.rank ? own[i] : pieces[(r < s.rank ? r : r - 1) * s.count + i];
    if (r == 0) {
      acc = s.write == WriteMode::add ? to_float(out[i]) + to_float(x) : to_float(x);
    } else {
      acc += to_float(x);
    }
  }
  out[i] = from_float<Out>(acc);
}

/// Calls launch(wire, out) with a value of each of the sum's types, unless there is nothing to add.
template <class Launch>
int with_types_of(const DeviceSum& s, const Launch& launch) {
  if (s.count == 0) return 0;
  if (s.wire == DType::f32 && s.out_type == DType::f32) return launch(float{}, float{});
  if (s.wire == DType::bf16 && s.out_type == DType::f32) return launch(bf16{}, float{});
  if (s.wire == DType::f32 && s.out_type == DType::bf16) return launch(float{}, bf16{});
  return launch(bf16{}, bf16{});
}

/// Enqueues the sum on `stream` (cudaStream_t); returns the launch's cudaError_t.
int ordered_sum_on_device(void* stream, const DeviceSum& sum);

}  // namespace weft::comm::detail
