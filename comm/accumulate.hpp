// Says whether a reduction replaces its output or adds to it. It stands apart from channel.hpp because device
// sources need it, which CMake 3.25 and CUDA 13 compile as C++17.
#pragma once

#include <cstdint>

namespace weft::comm {

enum class Accumulate : std::uint8_t { replace, add };

}  // namespace weft::comm
