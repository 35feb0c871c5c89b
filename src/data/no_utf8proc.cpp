// Stands for nfc_utf8proc.cpp in a build without utf8proc.
#include "base/check.hpp"
#include "data/nfc.hpp"

namespace weft::data {

bool has_nfc() {
  return false;
}

std::string to_nfc(std::string_view text) {
  WEFT_REQUIRE(false, "{} bytes of text to normalize in a build without utf8proc", text.size());
  return {};
}

}  // namespace weft::data
