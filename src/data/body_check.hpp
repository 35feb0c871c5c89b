// Whether the body of a token file is what was written: read from storage, beside whatever maps the file.
#pragma once

#include <cstdint>
#include <functional>

#include "data/token_file.hpp"

namespace weft::data {

/// Reads the file's body once, in pieces of 1 MiB, and holds it against the header's checksum. `goes_on` is
/// called with the bytes read so far after each piece; when it says false the check ends unfinished. Returns
/// whether it came to the end. Throws Error(bad_input) for a wrong checksum and for a file that another one
/// has replaced since it was opened, Error(environment) when storage cannot be read. Blocks; any thread.
bool check_body(const TokenFile& file, const std::function<bool(std::int64_t bytes)>& goes_on);

}  // namespace weft::data
