// Settings from the command line, --set table.key=value, laid over the tree of the deck's file.
#pragma once

#include <string>

#include "deck/problems.hpp"
#include "deck/toml_tree.hpp"

namespace weft::deck {

/// Puts the value of "table.key=value" into `tree`, creating tables on the way; adds to `problems` what is
/// wrong. For a text key the value may be a bare word, since the shell has eaten the quotes.
void apply_set(const std::string& set, Value& tree, Problems& problems);

}  // namespace weft::deck
