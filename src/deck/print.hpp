// Values in the deck's own spelling.
#pragma once

#include <string>
#include <string_view>

#include "deck/schema.hpp"

namespace weft::deck {

/// The key's value in `deck` as TOML; reading it back gives the same value.
std::string value_text(const Key& key, const Deck& deck);

/// `text` as a TOML string.
std::string quoted(std::string_view text);

}  // namespace weft::deck
