#include "comm/host/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/check.hpp"

namespace weft::comm::detail {
namespace {

/// How many elements are summed at a time: the fp32 accumulators then stay in the first-level cache while the
/// ranks' slices stream by.
constexpr std::int64_t block_elements = 2048;

template <class T>
const T* typed(const void* p, std::int64_t offset) {
  return static_cast<const T*>(p) + offset;
}

template <class Wire, class Out>
void sum_blocks(std::span<const void* const> sources, void* out_bytes, std::int64_t count, WriteMode write) {
  Out* out = static_cast<Out*>(out_bytes);
  float acc[block_elements];
  for (std::int64_t begin = 0; begin < count; begin += block_elements) {
    const std::int64_t n = std::min(block_elements, count - begin);
    std::size_t next = 0;
    if (write == WriteMode::add) {
      for (std::int64_t i = 0; i < n; ++i) acc[i] = to_float(out[begin + i]);
    } else {
      const Wire* first = typed<Wire>(sources[next++], begin);
      for (std::int64_t i = 0; i < n; ++i) acc[i] = to_float(first[i]);
    }
    for (; next < sources.size(); ++next) {
      const Wire* source = typed<Wire>(sources[next], begin);
      for (std::int64_t i = 0; i < n; ++i) acc[i] += to_float(source[i]);
    }
    for (std::int64_t i = 0; i < n; ++i) out[begin + i] = from_float<Out>(acc[i]);
  }
}

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

template <class T>
T combine(T a, T b, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return a + b;
    case ReduceOp::max: return b > a || is_nan(b) ? b : a;
    case ReduceOp::min: return b < a || is_nan(b) ? b : a;
  }
  return a;
}

template <class T>
void reduce_blocks(std::span<const void* const> sources, void* out_bytes, std::int64_t count, ReduceOp op) {
  T* out = static_cast<T*>(out_bytes);
  T acc[block_elements];
  for (std::int64_t begin = 0; begin < count; begin += block_elements) {
    const std::int64_t n = std::min(block_elements, count - begin);
    std::copy_n(typed<T>(sources[0], begin), n, acc);
    for (std::size_t r = 1; r < sources.size(); ++r) {
      const T* source = typed<T>(sources[r], begin);
      for (std::int64_t i = 0; i < n; ++i) acc[i] = combine(acc[i], source[i], op);
    }
    std::copy_n(acc, n, out + begin);
  }
}

}  // namespace

void ordered_sum(std::span<const void* const> sources, void* out, std::int64_t count, DType wire,
                 DType out_type, WriteMode write) {
  if (wire == DType::f32 && out_type == DType::f32)
    return sum_blocks<float, float>(sources, out, count, write);
  if (wire == DType::bf16 && out_type == DType::f32)
    return sum_blocks<bf16, float>(sources, out, count, write);
  if (wire == DType::f32 && out_type == DType::bf16)
    return sum_blocks<float, bf16>(sources, out, count, write);
  if (wire == DType::bf16 && out_type == DType::bf16)
    return sum_blocks<bf16, bf16>(sources, out, count, write);
  WEFT_REQUIRE(false, "cannot sum {} into {} (reduce-scatter knows f32 and bf16)", name_of(wire),
               name_of(out_type));
}

void ordered_reduce(std::span<const void* const> sources, void* out, std::int64_t count, DType dtype,
                    ReduceOp op) {
  switch (dtype) {
    case DType::f32: return reduce_blocks<float>(sources, out, count, op);
    case DType::f64: return reduce_blocks<double>(sources, out, count, op);
    case DType::i32: return reduce_blocks<std::int32_t>(sources, out, count, op);
    case DType::i64: return reduce_blocks<std::int64_t>(sources, out, count, op);
    case DType::u32: return reduce_blocks<std::uint32_t>(sources, out, count, op);
    case DType::u64: return reduce_blocks<std::uint64_t>(sources, out, count, op);
    default: WEFT_REQUIRE(false, "cannot all-reduce {} (f32, f64, i32, i64, u32, u64 only)", name_of(dtype));
  }
}

}  // namespace weft::comm::detail
