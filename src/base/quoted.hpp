// Text as a TOML string.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// In double quotes, with quotes, backslashes and control characters escaped.
std::string quoted(std::string_view text);

}  // namespace weft
