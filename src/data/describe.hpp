// Describes a token file for people, for `weft data show`.
#pragma once

#include <cstdint>
#include <string>

namespace weft::data {

class Tokenizer;

struct DescribeOptions {
  const Tokenizer* tokenizer = nullptr;  ///< decodes the first tokens; must be the one that wrote the file
  std::int64_t first = 64;               ///< how many tokens to show, 0 or more
};

/// Describes the file in several lines: header, sections, documents and the first tokens. Reads all of it to
/// check its checksum. Throws Error(bad_input) when the file is not whole, or was written by another
/// tokenizer.
std::string describe(const std::string& path, const DescribeOptions& options = {});

}  // namespace weft::data
