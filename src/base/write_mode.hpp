// Whether a result replaces what stands in its place, or is added to it. It has a file of its own because
// device sources need it, which CMake 3.25 and CUDA 13 compile as C++17.
#pragma once

#include <cstdint>

namespace weft {

enum class WriteMode : std::uint8_t { replace, add };

}  // namespace weft
