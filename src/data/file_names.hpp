// The names by which a deck or a command gives token files: paths, and patterns of paths.
#pragma once

#include <string>
#include <vector>

namespace weft::data {

/// The paths that `names` stand for, in their order. A name with a * or a ? is a pattern as a shell's
/// (glob(3)), and stands for the paths that match it, sorted by their bytes. Whether another name leads to a
/// file is left to whoever opens it. Throws Error(bad_input) for a pattern that nothing matches, or of which
/// a directory may not be read; Error(environment) when storage cannot be read.
std::vector<std::string> matching_paths(const std::vector<std::string>& names);

/// What a message about a file that is not there adds to the reason: for a relative path the working
/// directory, as ", looked for from DIRECTORY".
std::string looked_for_from(const std::string& path);

}  // namespace weft::data
