// Reads and writes durations as people and Slurm write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::deck {

/// The seconds in "2h30m", "90s", "1.5h", "1d12h", "HH:MM:SS" or "D-HH:MM:SS"; nothing when `text` is none of
/// them.
std::optional<double> parse_duration(std::string_view text);

/// The inverse of parse_duration: whole seconds as "2h30m". It is empty for other values, which have no such
/// form.
std::string print_duration(double seconds);

}  // namespace weft::deck
