#include "kernels/nonfinite.hpp"

#include "kernels/kokkos_space.hpp"

namespace weft::kernels {
namespace {

/// Counts by bits: an exponent of all ones, with a fraction (NaN) or without (infinity).
template <class Bits>
struct CountNonfinite {
  const Bits* data;
  Bits infinity;  ///< the bits of infinity

  KOKKOS_FUNCTION void operator()(std::int64_t i, std::int64_t& nans, std::int64_t& infinities) const {
    constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    const auto magnitude = static_cast<Bits>(data[i] & ~sign);
    nans += magnitude > infinity ? 1 : 0;
    infinities += magnitude == infinity ? 1 : 0;
  }
};

template <class Bits>
NonfiniteCount count(Space& space, std::int64_t n, const void* data, Bits infinity) {
  using Policy = Kokkos::RangePolicy<Execution, Kokkos::IndexType<std::int64_t>>;
  NonfiniteCount found;
  Kokkos::parallel_reduce("weft::count_nonfinite::elements", Policy(execution_of(space), 0, n),
                          CountNonfinite<Bits>{static_cast<const Bits*>(data), infinity}, found.nans,
                          found.infinities);
  return found;
}

}  // namespace

NonfiniteCount count_nonfinite(Space& space, std::int64_t n, const void* data, DType t) {
  switch (t) {
    case DType::f32: return count<std::uint32_t>(space, n, data, 0x7f800000U);
    case DType::bf16: return count<std::uint16_t>(space, n, data, 0x7f80U);
    case DType::f64: return count<std::uint64_t>(space, n, data, 0x7ff0000000000000U);
    case DType::i32:
    case DType::i64:
    case DType::u16:
    case DType::u32:
    case DType::u64:
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2: break;
  }
  return {};
}

}  // namespace weft::kernels
