// Patterns of module paths, as the deck writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft::passes {

/// What of the beginning of `path` the pattern matches, component by component, or nothing. '*' stands for
/// any component, "4-7" for one of these numbers; a range is returned as itself, so that its members are
/// alike. "layers.*" in "layers.3.attn": "layers.3."; "layers.2-5": "layers.2-5.".
std::optional<std::string> matched_part(std::string_view pattern, std::string_view path);

}  // namespace weft::passes
