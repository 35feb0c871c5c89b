// index.h5: virtual datasets that show every parameter whole and shaped to h5dump and h5py. Weft itself never
// reads them, because a missing source reads as zeros there, without an error.
#pragma once

#include <string>
#include <vector>

#include "ckpt/manifest.hpp"
#include "ckpt/shard.hpp"

namespace weft::ckpt::detail {

/// Writes PATH and fsyncs it. It holds /model/<parameter> for the master values,
/// /optimizer/exp_avg/<parameter> and /optimizer/exp_avg_sq/<parameter>, mapped onto the shards beside it,
/// and the run's scalars as attributes of the root. It does not need the shards' checksums.
void write_index(const std::string& path, const Manifest& manifest, const std::vector<Shard>& shards);

}  // namespace weft::ckpt::detail
