// Collects the mistakes in a deck, so that one run shows them all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::deck {

class Problems {
 public:
  /// Adds "PLACE: KEY: TEXT" (without "KEY: " when `key` is empty).
  void add(std::string_view place, std::string_view key, std::string_view text);
  bool empty() const { return lines_.empty(); }
  /// Throws Error(bad_input) with a line for each problem, 20 at most, if there are any.
  void throw_if_any() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace weft::deck
