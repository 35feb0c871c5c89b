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

/// Finds the slice of a rank in `own` and `pieces`.
template <class Wire>
struct OwnAndPieces {
  const DeviceSum& s;
  WEFT_FUNCTION const Wire* operator()(int r) const {
    if (r == s.rank) return static_cast<const Wire*>(s.own);
    return static_cast<const Wire*>(s.pieces) + (r < s.rank ? r : r - 1) * s.count;
  }
};

/// Makes element i of the sum; slices(r) is where the slice of rank r begins. There is no multiplication
/// here, and so nothing that a compiler could contract: the bits are those of the host's sum.
template <class Wire, class Out, class Slices>
WEFT_FUNCTION void sum_element(const DeviceSum& s, std::int64_t i, const Slices& slices) {
  auto* out = static_cast<Out*>(s.out);
  float acc = 0;
  for (int r = 0; r < s.size; ++r) {
    const Wire x = slices(r)[i];
    if (r == 0) {
      acc = s.write == WriteMode::add ? to_float(out[i]) + to_float(x) : to_float(x);
    } else {
      acc += to_float(x);
    }
  }
  out[i] = from_float<Out>(acc);
}

inline constexpr int sum_packet = 8;  ///< elements

/// A part of a packet, which is loaded or stored by one access.
template <class T>
struct alignas(16) SixteenBytes {
  static constexpr int count = 16 / sizeof(T);
  T values[count];
};

/// Loads a packet from an address that is a multiple of 16, and stores one there.
template <class T>
WEFT_FUNCTION void load_packet(const T* from, float (&x)[sum_packet]) {
  using Part = SixteenBytes<T>;
  for (int p = 0; p < sum_packet / Part::count; ++p) {
    const Part part = reinterpret_cast<const Part*>(from)[p];
    for (int i = 0; i < Part::count; ++i) x[p * Part::count + i] = to_float(part.values[i]);
  }
}
template <class T>
WEFT_FUNCTION void store_packet(T* to, const float (&x)[sum_packet]) {
  using Part = SixteenBytes<T>;
  for (int p = 0; p < sum_packet / Part::count; ++p) {
    Part part;
    for (int i = 0; i < Part::count; ++i) part.values[i] = from_float<T>(x[p * Part::count + i]);
    reinterpret_cast<Part*>(to)[p] = part;
  }
}

/// Makes the elements of a packet, of which `first` is the first: each as sum_element does. All that it reads
/// is read before it writes, because `out` may be the slice of this rank.
template <class Wire, class Out, class Slices>
WEFT_FUNCTION void sum_packet_of(const DeviceSum& s, std::int64_t first, const Slices& slices) {
  auto* out = static_cast<Out*>(s.out);
  float acc[sum_packet] = {}, x[sum_packet];
  if (s.write == WriteMode::add) load_packet(out + first, acc);
  for (int r = 0; r < s.size; ++r) {
    load_packet(slices(r) + first, x);
    const bool begins = r == 0 && s.write == WriteMode::replace;
    for (int i = 0; i < sum_packet; ++i) acc[i] = begins ? x[i] : acc[i] + x[i];
  }
  store_packet(out + first, acc);
}

/// How many packets the sum has from its first element on; the rest goes an element at a time. It has none
/// where the slices do not all begin at a multiple of 16 bytes.
inline std::int64_t packets_of(const DeviceSum& s) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  const std::int64_t piece_bytes = s.count * static_cast<std::int64_t>(size_of(s.wire));
  const bool pieces = s.size == 1 || (aligned(s.pieces) && (s.size == 2 || piece_bytes % 16 == 0));
  return aligned(s.own) && aligned(s.out) && pieces ? s.count / sum_packet : 0;
}

/// What there is for threads to do where a sum has so many packets: one packet or one element of the rest.
WEFT_FUNCTION std::int64_t turns_of(const DeviceSum& s, std::int64_t packets) {
  return packets + s.count - packets * sum_packet;
}
template <class Wire, class Out, class Slices>
WEFT_FUNCTION void take_turn(const DeviceSum& s, std::int64_t packets, std::int64_t turn,
                             const Slices& slices) {
  if (turn < packets) {
    sum_packet_of<Wire, Out>(s, turn * sum_packet, slices);
  } else {
    sum_element<Wire, Out>(s, packets * sum_packet + turn - packets, slices);
  }
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
