// Lays settings from the command line (--set table.key=value) over the tree of the deck's file.
#pragma once

#include <string>

#include "deck/problems.hpp"
#include "deck/toml_tree.hpp"

namespace weft::deck {

/// Puts the value of "table.key=value" into `tree`, creating tables on the way; adds to `problems` what is
/// wrong. The value of a text key may be a bare word, because the shell has removed the quotes.
void apply_set(const std::string& set, Value& tree, Problems& problems);

}  // namespace weft::deck
