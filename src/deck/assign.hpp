// Writes a TOML value to the member of a Deck that its key is bound to, if it has the key's type and range.
#pragma once

#include <string>
#include <string_view>

#include "deck/problems.hpp"
#include "deck/schema.hpp"
#include "deck/toml_tree.hpp"

namespace weft::deck {

/// Writes `value` to the key's member, or adds to `problems` why that is impossible.
void assign(const Key& key, const Value& value, Deck& deck, Problems& problems);

/// What is wrong with a number that the deck already holds; empty when nothing is, or when the key is not a
/// number.
std::string range_problem(const Key& key, Deck& deck);

/// A value in the words of messages: "the string \"x\"", "the integer 3", "a table".
std::string describe(const Value& value);

}  // namespace weft::deck
