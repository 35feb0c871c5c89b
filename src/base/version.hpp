// Which Weft this is.
#pragma once

namespace weft {

const char* weft_version();      ///< "0.1.0"
const char* weft_git_hash();     ///< of the source tree at configuration; "unknown" outside of a repository
const char* weft_mkl_version();  ///< of the MKL that this build has, "2026.2"; "" without

}  // namespace weft
