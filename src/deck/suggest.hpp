// Finds what a misspelt name may have meant: the nearest name by edit distance, or what another trainer's
// name stands for.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weft::deck {

/// The known key or table nearest to `path` ("optimizer.learning_rate" -> "optimizer.lr"), or empty. A name
/// from the same table wins over an equally near one elsewhere.
std::string_view nearest_key(std::string_view path);
/// The known table that is nearest to `name`, or empty.
std::string_view nearest_table(std::string_view name);
/// The word of `words` that is nearest to `word` (choices of an enum, axes of the mesh), or empty.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> words);

/// How many insertions, deletions, substitutions and swaps of neighbours turn `a` into `b` (optimal string
/// alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The end of a message: "; did you mean 'x'?", or nothing when `name` is empty.
std::string did_you_mean(std::string_view name);

}  // namespace weft::deck
