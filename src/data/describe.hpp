// What is in a token file, for people: `weft data show`.
#pragma once

#include <cstdint>
#include <string>

namespace weft::data {

class Tokenizer;

struct DescribeOptions {
  const Tokenizer* tokenizer = nullptr;  ///< decodes the first tokens; must be the one that wrote the file
  std::int64_t first = 64;               ///< tokens to show
};

/// Header, sections, documents and the first tokens of the file, several lines; reads all of it to check its
/// checksum. Throws Error(bad_input) when the file is not whole, or was written by another tokenizer.
std::string describe(const std::string& path, const DescribeOptions& options = {});

}  // namespace weft::data
