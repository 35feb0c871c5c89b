// A value in a JSON file from elsewhere, with messages that say where it stands.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "base/quoted.hpp"
#include "data/text_runs.hpp"

namespace weft::data::detail {

/// Ids are below this. The largest vocabularies in use have a quarter of it, and a larger id is damage that
/// would take memory for all ids below.
inline constexpr std::int64_t most_ids = std::int64_t{1} << 20;

/// A text as a message has it: the beginning of a long one.
inline std::string shortened(std::string_view text) {
  return text.size() > 60 ? std::string(text.substr(0, utf8_cut(text, 57))) + "..." : std::string(text);
}

/// A JSON value and where it stands, as "tokenizer.json: pre_tokenizer.pretokenizers[1]". What it is not is
/// refused by Error(bad_input).
struct Node {
  const nlohmann::json* value;
  std::string where;

  /// The value as a line of a message, cut where it is long.
  std::string text() const {
    const bool is_simple = !value->is_object() && !value->is_array();
    return one_line(shortened(is_simple
                                  ? value->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                                  : std::string(value->type_name())));
  }
  [[noreturn]] void refuse(const std::string& supported) const {
    throw Error(ExitCode::bad_input,
                fmt::format("{} is {} (Weft reads {}); use another tokenizer", where, text(), supported));
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ExitCode::bad_input, fmt::format("{} {}; get the file again", where, problem));
  }

  bool has(const std::string& key) const { return value->is_object() && value->contains(key); }
  bool is_null() const { return value->is_null(); }

  Node operator[](const std::string& key) const {
    if (!value->is_object()) fail("is not an object");
    const auto found = value->find(key);
    if (found == value->end()) fail(fmt::format("has no \"{}\"", one_line(key)));
    return {&*found, where + (where.ends_with(": ") ? "" : ".") + one_line(key)};
  }
  Node at(std::size_t i) const { return {&(*value)[i], fmt::format("{}[{}]", where, i)}; }
  std::size_t array_size() const {
    if (!value->is_array()) fail("is not an array");
    return value->size();
  }
  const std::string& string() const {
    if (!value->is_string()) fail("is not a string");
    return value->get_ref<const std::string&>();
  }
  bool boolean() const {
    if (!value->is_boolean()) fail("is not true or false");
    return value->get<bool>();
  }
  bool flag(const std::string& key, bool otherwise) const {
    return has(key) ? (*this)[key].boolean() : otherwise;
  }
  std::int32_t id() const {
    const bool whole = value->is_number_unsigned() && value->get<std::uint64_t>() < std::uint64_t{most_ids};
    if (!whole) fail(fmt::format("is {}, and no id from 0 to {}", text(), most_ids - 1));
    return value->get<std::int32_t>();
  }
  /// Refuses keys that are not known here: they could change ids.
  void expect_keys(std::initializer_list<std::string_view> known) const {
    if (!value->is_object()) fail("is not an object");
    for (const auto& [key, _] : value->items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        throw Error(ExitCode::bad_input,
                    fmt::format("{}{}{} is a key that Weft does not know (it could change ids); use another "
                                "tokenizer, or tell Weft's authors of this one",
                                where, where.ends_with(": ") ? "" : ".", one_line(key)));
  }
  /// Expects a key that may be missing to have one of the values that change nothing.
  void expect_unused(const std::string& key, std::initializer_list<nlohmann::json> harmless,
                     const std::string& supported) const {
    if (!has(key)) return;
    const Node node = (*this)[key];
    if (std::find(harmless.begin(), harmless.end(), *node.value) == harmless.end()) node.refuse(supported);
  }
};

}  // namespace weft::data::detail
