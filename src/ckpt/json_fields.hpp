// Reads fields of a manifest's JSON. The manifest's checksum tells damage, not intent: anyone can compute it,
// so each value is checked against what is possible. All errors are Error(bad_checkpoint), or nlohmann-json's
// own for a value of another type.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace weft::ckpt::detail {

using Json = nlohmann::ordered_json;

/// The most that a count may be, of bytes and elements for example: its product with an element's size stays
/// within 63 bits.
inline constexpr std::uint64_t most = std::uint64_t{1} << 56;

/// An integer from 0 to `limit`.
std::uint64_t unsigned_from(const Json& j, std::uint64_t limit);
template <class Integer>
Integer integer(const Json& j, std::uint64_t limit = most) {
  return static_cast<Integer>(unsigned_from(j, limit));
}
/// An integer from 0 on that fits an int.
int small_integer(const Json& j);

/// A text without control characters, because it is shown in lists and messages.
std::string name_from(const Json& j);

/// A checksum as 16 hexadecimal digits.
std::string hex(std::uint64_t value);
std::uint64_t from_hex(const Json& j);

}  // namespace weft::ckpt::detail
