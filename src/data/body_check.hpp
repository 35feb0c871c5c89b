// Checks that the body of a token file is what was written. It reads from storage, beside any mapping of the
// file.
#pragma once

#include <cstdint>
#include <functional>

#include "data/token_file.hpp"

namespace weft::data {

/// Reads the file's body once, in pieces of 1 MiB, and compares its checksum with the header's. `goes_on` is
/// called with the bytes read so far after each piece; when it returns false the check ends unfinished.
/// Returns whether the check came to the end. Throws Error(bad_input) for a wrong checksum and for a file
/// that another one has replaced since it was opened, and Error(environment) when storage cannot be read. It
/// blocks, and may be called on any thread.
bool check_body(const TokenFile& file, const std::function<bool(std::int64_t bytes)>& goes_on);

}  // namespace weft::data
