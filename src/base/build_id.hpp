// Identifies the build of Weft, because version and commit do not tell compilers, flags and changed sources
// apart.
#pragma once

#include <string>

namespace weft {

/// The linker's hash of all that it has put into this program (the ELF build-id), in hex digits; empty where
/// the linker has left none. Copies of a program have the same.
std::string program_build_id();

}  // namespace weft
