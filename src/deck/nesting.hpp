// Finds out how deep a TOML text nests, before anything is built from it.
#pragma once

#include <cstddef>
#include <string_view>

namespace weft::deck {

/// The line, counted from 1, on which `text` nests deeper than a deck has reason to: with more than 64 dots
/// outside of strings ("a.a.a. ... = 1" is a table in a table in a table), or 16 open brackets. 0 when there
/// is none. toml++ frees its tables by recursion, one level for each dot, and a megabyte of dots would take
/// all of the stack.
std::size_t too_deep_at(std::string_view text);

}  // namespace weft::deck
