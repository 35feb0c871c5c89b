// Finds free names for files and directories of an earlier run that are kept.
#pragma once

#include <string>

namespace weft::io {

/// `path`, or PATH-2, PATH-3, ...: the first that does not exist. Throws Error(environment) when that cannot
/// be seen.
std::string free_name(const std::string& path);

}  // namespace weft::io
