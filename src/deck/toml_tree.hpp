// Parses TOML text to a plain tree that remembers the lines. The rest of the folder does not see toml++.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deck/problems.hpp"

namespace weft::deck {

struct Value {
  enum class Kind : std::uint8_t { boolean, integer, real, text, time, date, array, table };
  Kind kind = Kind::table;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;          ///< a text; also a time or date, as TOML writes it
  std::vector<Value> items;  ///< the items of an array, or of a table in the order of the file
  std::string name;          ///< the key, where the value stands in a table
  std::string place;         ///< "FILE:LINE" or "--set"
};

/// The item of `table` called `name`, or null.
Value* find(Value& table, std::string_view name);

/// Parses a whole deck. A syntax error or a key given twice is added to `problems`; the tree is then empty.
Value read_toml(std::string_view text, const std::string& source, Problems& problems);

enum class ReadValue : std::uint8_t { good, key_twice, not_toml };

/// Parses the right side of "key = value" on one line. `value` is left alone unless it is good.
ReadValue read_toml_value(std::string_view text, const std::string& place, Value& value);

/// The value of a decimal number that is no TOML value, because 64 bits do not hold it: infinite where a
/// double does not, either. Nothing for any other text.
std::optional<double> oversized_number(std::string_view text);

}  // namespace weft::deck
