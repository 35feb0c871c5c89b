// Normalization by utf8proc. A build without it has no_utf8proc.cpp instead.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/check.hpp"
#include "data/nfc.hpp"

namespace weft::data {

bool has_nfc() {
  return true;
}

namespace {

std::string normalized_by_utf8proc(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &made, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  WEFT_REQUIRE(size >= 0, "utf8proc refuses UTF-8 ({})", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(size)};
}

}  // namespace

/// utf8proc 2.8 drops U+11A7 behind a Hangul syllable, as though it were a last consonant. That letter joins
/// nothing before it, so what stands before it is normalized alone.
std::string to_nfc(std::string_view text) {
  constexpr std::string_view dropped = "\xe1\x86\xa7";
  std::string made;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(dropped, 1), text.size());
    made += normalized_by_utf8proc(text.substr(0, end));
    text.remove_prefix(end);
  }
  return made;
}

}  // namespace weft::data
