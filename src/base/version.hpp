// The version of Weft, the commit of its sources, and what it was built with.
#pragma once

namespace weft {

const char* weft_version();   ///< "0.2.0"
const char* weft_git_hash();  ///< the commit that the sources were built from; "unknown" without one
/// Compiler and libraries that the build found, in several lines. The first has what all computing rests on:
/// "GNU 12.2.0 for x86_64, -march=native; Kokkos 4.7.0, ...".
const char* weft_build_text();

}  // namespace weft
