// The local arithmetic of reductions: sums and extrema in rank order, in loops that the compiler vectorises.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.hpp"
#include "comm/channel.hpp"

namespace weft::comm::detail {

/// out[i] = ((acc + s[0][i]) + s[1][i]) + ... in fp32, where acc is out[i] for add and absent for replace.
/// `sources` has one pointer for each rank, in rank order, to [count] of `wire`. A source may be `out`
/// itself.
void ordered_sum(std::span<const void* const> sources, void* out, std::int64_t count, DType wire,
                 DType out_type, WriteMode write);

/// out[i] = op(op(s[0][i], s[1][i]), ...) in `dtype`. A source may be `out` itself. NaN wins in max and min.
void ordered_reduce(std::span<const void* const> sources, void* out, std::int64_t count, DType dtype,
                    ReduceOp op);

}  // namespace weft::comm::detail
