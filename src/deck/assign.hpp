// From a TOML value to the member of a Deck, with the key's type and range enforced.
#pragma once

#include <string>
#include <string_view>

#include "deck/problems.hpp"
#include "deck/schema.hpp"
#include "deck/toml_tree.hpp"

namespace weft::deck {

/// Writes `value` to the key's member, or adds to `problems` why it cannot be.
void assign(const Key& key, const Value& value, Deck& deck, Problems& problems);

/// What is wrong with a number that the deck already holds; empty when nothing is (or the key is not a
/// number).
std::string range_problem(const Key& key, Deck& deck);

/// "the string \"x\"", "the integer 3", "a table": a value as messages call it.
std::string describe(const Value& value);

}  // namespace weft::deck
