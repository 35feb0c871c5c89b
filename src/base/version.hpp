// The version of Weft, the commit of its sources, and the version of MKL.
#pragma once

namespace weft {

const char* weft_version();   ///< "0.1.0"
const char* weft_git_hash();  ///< commit of the sources when the build was configured; "unknown" without one
const char* weft_mkl_version();  ///< version of the MKL that this build uses, "2026.2"; "" without MKL

}  // namespace weft
