// Durations as people and Slurm write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::deck {

/// Seconds in "2h30m", "90s", "1.5h", "1d12h", "HH:MM:SS" or "D-HH:MM:SS"; nothing when `text` is none of
/// them.
std::optional<double> parse_duration(std::string_view text);

/// The inverse: whole seconds as "2h30m". Other values have no such form; the result is then empty.
std::string print_duration(double seconds);

}  // namespace weft::deck
