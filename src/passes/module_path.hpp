// Matches module paths against patterns, as the deck writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::passes {

/// How much of the beginning of `path` the pattern matches, component by component; nothing when it does not
/// match. '*' stands for any component, and "4-7" for one of these numbers. A range is returned as the
/// pattern has it, so that all its members give the same text. In "layers.3.attn", "layers.*" gives
/// "layers.3." and "layers.2-5" gives "layers.2-5.".
std::optional<std::string> matched_part(std::string_view pattern, std::string_view path);

}  // namespace weft::passes
