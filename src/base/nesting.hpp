// Whether JSON from elsewhere may be given to a parser.
#pragma once

#include <string_view>

namespace weft {

/// Whether brackets nest far deeper than in anything that Weft or its users write. nlohmann-json copies an
/// object's values by recursion when the object grows, and some ten thousand levels would take all of the
/// stack.
bool nests_deeply(std::string_view text);

}  // namespace weft
