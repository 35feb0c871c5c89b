// The version of Weft, the commit of its sources, and what it was built with.
#pragma once

namespace weft {

const char* weft_version();   ///< "0.2.0"
const char* weft_git_hash();  ///< commit of the sources when the build was configured; "unknown" without one
/// Compiler and libraries that the build found: "GNU 12.2.0 for x86_64, -march=native; Kokkos 4.7.0, ...".
const char* weft_build_text();

}  // namespace weft
