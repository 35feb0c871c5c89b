// Whether a result replaces what stands in its place, or is added to it. A file of its own because device
// sources, which CMake 3.25 and CUDA 13 compile as C++17, need it.
#pragma once

#include <cstdint>

namespace weft {

enum class WriteMode : std::uint8_t { replace, add };

}  // namespace weft
