#include "ckpt/json_fields.hpp"

#include <charconv>
#include <limits>

#include "base/check.hpp"
#include "base/quoted.hpp"

namespace weft::ckpt::detail {

namespace {

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_checkpoint, message);
}

}  // namespace

std::uint64_t unsigned_from(const Json& j, std::uint64_t limit) {
  if (!j.is_number_unsigned() || j.get<std::uint64_t>() > limit)
    fail(fmt::format("{} stands where an integer from 0 to {} is expected",
                     j.is_number() ? j.dump() : j.type_name(), limit));
  return j.get<std::uint64_t>();
}

int small_integer(const Json& j) {
  return integer<int>(j, std::numeric_limits<int>::max());
}

std::string name_from(const Json& j) {
  std::string name = j;
  if (name != one_line(name)) fail(fmt::format("a name has control characters: {}", name));
  return name;
}

std::uint64_t from_hex(const Json& j) {
  const auto& text = j.get_ref<const std::string&>();
  std::uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, 16);
  if (error != std::errc() || end != last || text != hex(value))
    fail(fmt::format("'{}' is no checksum", text));
  return value;
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace weft::ckpt::detail
