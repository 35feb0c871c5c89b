// Rows of a table that ranks use: of an embedding, those of a microbatch's tokens. Only these need be sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::comm {

struct UsedRows {
  std::int64_t rows = 0;  ///< of the table; what it is padded with behind them nobody uses
  std::int64_t row_elements = 0;
  std::vector<const std::uint8_t*> by_rank;  ///< of the channel: a bit a row, the lowest of each byte first

  bool uses(int rank, std::int64_t row) const {
    return row < rows && (by_rank[static_cast<std::size_t>(rank)][row / 8] >> (row % 8) & 1U) != 0;
  }
};

}  // namespace weft::comm
