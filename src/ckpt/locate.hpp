// Asks HDF5 where datasets stand in a shard file. The source beside it has nothing else: the fuzz target of
// shard files replaces it (tests/fuzz/shard.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/unit.hpp"
#include "ckpt/shard.hpp"

namespace weft::ckpt::detail {

/// Where each of the slices of a shard file of format 1 begins, in bytes; later formats store it. Opening the
/// file checks HDF5's own metadata checksums. Throws Error(bad_checkpoint) for a damaged header, and when a
/// dataset is missing or of another size than the manifest says.
std::vector<std::int64_t> locate(const std::string& path, const std::vector<const ShardSlice*>& slices,
                                 const std::vector<Unit>& units);

}  // namespace weft::ckpt::detail
