// The command line.
#pragma once

namespace weft::cli {

/// Runs `weft ARGUMENTS` and returns the exit code. Throws weft::Error; a message may have several lines, and
/// is empty on ranks that leave the speaking to rank 0.
int run(int argc, char** argv);

}  // namespace weft::cli
