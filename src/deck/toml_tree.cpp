#include "deck/toml_tree.hpp"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <utility>

#include "deck/nesting.hpp"

namespace weft::deck {
namespace {

using Kind = Value::Kind;

template <class Time>
std::string written(const Time& time) {
  std::ostringstream out;
  out << time;
  return out.str();
}

Value convert(const toml::node& node, const std::string& source);

Value convert_table(const toml::table& table, const std::string& source) {
  // toml++ sorts a table by key, but problems and mesh axes shall come in the order of the file.
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (const auto& [key, node] : table) entries.emplace_back(&key, &node);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    const auto x = a.first->source().begin;
    const auto y = b.first->source().begin;
    return std::pair(x.line, x.column) < std::pair(y.line, y.column);
  });
  Value value;
  for (const auto& [key, node] : entries) {
    value.items.push_back(convert(*node, source));
    value.items.back().name = std::string(key->str());
    value.items.back().place = fmt::format("{}:{}", source, key->source().begin.line);
  }
  return value;
}

Value convert(const toml::node& node, const std::string& source) {
  Value value;
  if (const auto* table = node.as_table()) {
    value = convert_table(*table, source);
  } else if (const auto* array = node.as_array()) {
    value.kind = Kind::array;
    for (const auto& item : *array) value.items.push_back(convert(item, source));
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = Kind::boolean;
    value.boolean = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = Kind::integer;
    value.integer = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = Kind::real;
    value.real = real->get();
  } else if (const auto* text = node.as_string()) {
    value.kind = Kind::text;
    value.text = text->get();
  } else if (const auto* time = node.as_time()) {
    value.kind = Kind::time;
    value.text = written(time->get());
  } else {
    value.kind = Kind::date;
    value.text = node.is_date() ? written(node.as_date()->get()) : written(node.as_date_time()->get());
  }
  value.place = fmt::format("{}:{}", source, node.source().begin.line);
  return value;
}

std::string_view line_of(std::string_view text, std::size_t line) {
  for (; line > 1 && !text.empty(); --line)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == text.npos ? std::string_view{}
                            : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// The path of the last [header] down to `line`, or empty.
std::string header_above(std::string_view text, std::size_t line) {
  std::string_view header;
  for (; line > 0 && !text.empty(); --line) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto row = trimmed(text.substr(0, end));
    if (row.starts_with('[') && row.find(']') != row.npos) header = trimmed(row.substr(1, row.find(']') - 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::string(header);
}

/// Describes a key that was given twice, for which toml++ says "cannot redefine": which key it is, and the
/// line where it stood first.
bool describe_duplicate(std::string_view text, const std::string& source, std::size_t line,
                        Problems& problems) {
  const auto row = trimmed(line_of(text, line));
  std::string path = header_above(text, line);
  if (!row.starts_with('[')) {
    if (row.find('=') == row.npos) return false;
    if (!path.empty()) path += '.';
    path += trimmed(row.substr(0, row.find('=')));
  }
  const auto above = text.substr(0, static_cast<std::size_t>(line_of(text, line).data() - text.data()));
  toml::table table;
  try {
    table = toml::parse(above, std::string_view(source));
  } catch (const toml::parse_error&) {
    return false;
  }
  const auto first = table.at_path(path);
  if (!first) return false;
  const auto kind = first.is_table() ? "table" : "key";
  problems.add(fmt::format("{}:{}", source, line), path,
               fmt::format("given twice (this {} already stands on line {}); keep one", kind,
                           first.node()->source().begin.line));
  return true;
}

/// What stands behind the first '=' of a row, up to a space or a comma; empty where there is none.
std::string_view first_word(std::string_view row) {
  const auto equals = row.find('=');
  if (equals == row.npos || row.starts_with('[')) return {};
  const auto value = trimmed(row.substr(equals + 1));
  return value.substr(0, value.find_first_of(" \t,]}#"));
}

/// Whether a word is in the place of a value ("mode = fsdp", "walltime = 2h30m"), which is the most common
/// slip.
bool is_bare_word(std::string_view word) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool starts_as_value = !word.empty() && (is_letter(word[0]) || (word[0] >= '0' && word[0] <= '9'));
  return starts_as_value && std::any_of(word.begin(), word.end(), is_letter);
}

/// The parser's message without its "Error while ...", and with a hint.
std::string folded(const toml::parse_error& error, std::string_view row) {
  std::string text(error.description());
  std::string what = "TOML";
  if (const std::string start = "Error while parsing "; text.starts_with(start)) {
    const auto colon = text.find(": ");
    if (colon != text.npos) {
      what = text.substr(start.size(), colon - start.size());
      text = text.substr(colon + 2);
    }
  }
  const std::string_view word = first_word(row);
  return fmt::format("{} (column {}, while reading: {}){}", text, error.source().begin.column, what,
                     oversized_number(word) ? "; the number is too large"
                     : is_bare_word(word)   ? "; text needs quotes: \"...\""
                                            : "");
}

bool is_of_duplicate(const toml::parse_error& error) {
  return error.description().find("cannot redefine") != std::string_view::npos;
}

void move_to(const std::string& place, Value& value) {
  value.place = place;
  for (auto& item : value.items) move_to(place, item);
}

}  // namespace

Value* find(Value& table, std::string_view name) {
  for (auto& item : table.items)
    if (item.name == name) return &item;
  return nullptr;
}

Value read_toml(std::string_view text, const std::string& source, Problems& problems) {
  if (const auto line = too_deep_at(text); line > 0) {
    problems.add(fmt::format("{}:{}", source, line), "",
                 "nested too deeply (keys stand below [table], one a line)");
    return {};
  }
  try {
    return convert_table(toml::parse(text, std::string_view(source)), source);
  } catch (const toml::parse_error& error) {
    const auto line = static_cast<std::size_t>(error.source().begin.line);
    if (!is_of_duplicate(error) || !describe_duplicate(text, source, line, problems))
      problems.add(fmt::format("{}:{}", source, line), "",
                   fmt::format("not valid TOML: {}", folded(error, trimmed(line_of(text, line)))));
    return {};
  }
}

ReadValue read_toml_value(std::string_view text, const std::string& place, Value& value) {
  if (text.find_first_of("\r\n") != text.npos || too_deep_at(text) > 0) return ReadValue::not_toml;
  try {
    const auto table = toml::parse(std::string("v = ").append(text));
    value = convert(*table.get("v"), place);
  } catch (const toml::parse_error& error) {
    return is_of_duplicate(error) ? ReadValue::key_twice : ReadValue::not_toml;
  }
  move_to(place, value);
  return ReadValue::good;
}

std::optional<double> oversized_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string digits(text.substr(negative || text.starts_with('+') ? 1 : 0));
  std::erase(digits, '_');
  Value value;
  if (digits.empty() || digits[0] < '0' || digits[0] > '9' ||
      read_toml_value(text, "", value) == ReadValue::good)
    return std::nullopt;
  double number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, number);
  // TOML takes a number that is too small for a zero, so one that is out of range is too large.
  if (error == std::errc::result_out_of_range) number = std::numeric_limits<double>::infinity();
  if (rest != end || number < 0x1p63) return std::nullopt;
  return negative ? -number : number;
}

}  // namespace weft::deck
