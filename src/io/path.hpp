// Spellings of paths.
#pragma once

#include <string>

namespace weft::io {

/// The path without slashes at its end, which would stand twice in what is built from it. "/" stays.
inline std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace weft::io
