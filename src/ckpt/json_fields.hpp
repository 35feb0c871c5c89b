// Fields of a manifest's JSON. Its checksum tells damage, not intent: anyone can compute it, so that what the
// text says is held against what can be. All errors are Error(bad_checkpoint), or nlohmann-json's own for a
// value of another type.
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
/// That fits an int.
int small_integer(const Json& j);

/// Text without control characters: it is shown in lists and messages.
std::string name_from(const Json& j);

/// A checksum as 16 digits.
std::string hex(std::uint64_t value);
std::uint64_t from_hex(const Json& j);

/// Whether brackets nest deeper than a manifest's do, by far: nlohmann-json copies an object's values by
/// recursion when the object grows, and some ten thousand levels take all of the stack.
bool nests_deeply(std::string_view text);

}  // namespace weft::ckpt::detail
