// Unicode's normalization form C, which some tokenizers bring text into.
#pragma once

#include <string>
#include <string_view>

namespace weft::data {

/// Whether this build has utf8proc, without which to_nfc() must not be called.
bool has_nfc();

/// `text`, which is UTF-8, in normalization form C (Unicode Standard Annex 15).
std::string to_nfc(std::string_view text);

}  // namespace weft::data
