// Describes which rows of a table ranks use: for an embedding, those of a microbatch's tokens. Only these
// need be sent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.hpp"

namespace weft::comm {

/// A table that is cut over the ranks of a channel into slices of equally many elements, which may end within
/// rows. What a padded table has behind its rows nobody uses.
struct RowSlices {
  std::int64_t rows = 0;
  std::int64_t row_elements = 0;
  std::int64_t slice_elements = 0;
  int ranks = 1;

  /// Bytes of a bit map with one bit for each row of the table; a byte's lowest bit is its first row.
  std::int64_t table_bytes() const { return (rows + 7) / 8; }
  /// The row of the first bit in the bit map of a rank's slice: where the slice begins, rounded down to a
  /// multiple of eight.
  std::int64_t first_row(int rank) const {
    return std::min(rank * slice_elements / row_elements, rows) / 8 * 8;
  }
  /// Bytes of the bit map of any slice: its rows, those that it shares with its neighbours, and up to seven
  /// before them that align it.
  std::int64_t slice_bytes() const {
    const std::int64_t touched = (slice_elements + row_elements - 2) / row_elements + 1;
    return (touched + 7 + 7) / 8;
  }
};

/// What a rank knows of the rows that are used: all of its own, and those of the others in its own slice. An
/// exchange needs no more, because rows are sent from a slice to those who use them, and back to it.
struct UsedRows {
  RowSlices slices;
  int rank = 0;                       ///< this rank's number in the channel
  const std::uint8_t* own = nullptr;  ///< bit map of the rows that this rank uses: [table_bytes]
  /// A bit map from each rank: which rows of this rank's slice it uses. Each has slice_bytes, and begins with
  /// first_row(rank).
  const std::uint8_t* seen = nullptr;
  std::int64_t seen_stride = 0;  ///< bytes from one rank's bit map to the next one's

  bool uses(int user, std::int64_t row) const {
    if (row >= slices.rows) return false;
    if (user == rank) return bit(own, row);
    const std::int64_t place = row - slices.first_row(rank);
    WEFT_EXPECT(place >= 0 && place < 8 * slices.slice_bytes(), "row {} is not in rank {}'s slice", row,
                rank);
    return bit(seen + user * seen_stride, place);
  }

 private:
  static bool bit(const std::uint8_t* bits, std::int64_t i) { return (bits[i / 8] >> (i % 8) & 1U) != 0; }
};

}  // namespace weft::comm
