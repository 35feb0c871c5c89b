// Reads and writes sizes in bytes as people write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::deck {

/// Bytes in "4GiB", "512 MiB", "1.5GB" or "1000"; nothing when `text` is none of them.
std::optional<double> parse_bytes(std::string_view text);

/// The inverse of parse_bytes: whole multiples of a binary unit as "4GiB", and other whole numbers as
/// "1000B". Empty for numbers that are neither.
std::string print_bytes(double bytes);

}  // namespace weft::deck
