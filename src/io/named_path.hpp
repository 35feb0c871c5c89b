// Looks at files and directories that the user named. What cannot be looked at is an
// Error(exit_code_of_named_file()), with the path and the system's reason.
#pragma once

#include <string>
#include <vector>

namespace weft::io {

/// Whether there is something of this name. A link counts as what it leads to.
bool is_there(const std::string& path);
/// The same for a directory.
bool is_directory(const std::string& path);
/// Whether the name is taken, be it by a link to nothing.
bool is_taken(const std::string& path);
/// The names of what is in a directory, in order.
std::vector<std::string> names_in(const std::string& dir);

}  // namespace weft::io
