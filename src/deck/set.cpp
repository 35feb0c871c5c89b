#include "deck/set.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/quoted.hpp"
#include "deck/assign.hpp"
#include "deck/schema.hpp"
#include "deck/suggest.hpp"

namespace weft::deck {
namespace {

constexpr const char* place = "--set";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == text.npos ? std::string_view{}
                            : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Whether the key's value is text, or may be: a number given for it is a name or a path.
bool takes_text(const Key* key) {
  if (!key) return false;
  Deck deck;
  const Slot slot = key->slot(deck);
  return std::holds_alternative<std::string*>(slot) ||
         std::holds_alternative<std::vector<std::string>*>(slot);
}

/// Whether the path is a known key or table, or an entry of a key that is itself a table
/// (parallel.mesh.data).
bool known(std::string_view path) {
  if (find_key(path) || find_table(path)) return true;
  const Key* parent = find_key(path.substr(0, std::min(path.rfind('.'), path.size())));
  return parent && parent->path != path && type_text(*parent).starts_with("table");
}

/// Reads the right side of a setting; returns what is wrong with it, or nothing.
std::string read_value(std::string_view text, const Key* key, std::string_view path, Value& value) {
  if (text.empty()) return "no value (write \"\" for empty text)";
  const bool bare = std::string_view("\"'[{").find(text.front()) == std::string_view::npos;
  if (!(bare && takes_text(key))) {
    const ReadValue read = read_toml_value(text, place, value);
    if (read == ReadValue::good) return {};
    if (read == ReadValue::key_twice)
      return fmt::format("'{}' gives a key twice (each has one value); keep one", text);
  }
  if (!bare)
    return fmt::format("'{}' is not a TOML value (quote it for the shell: --set '{}=...')", text, path);
  return read_toml_value(weft::quoted(text), place, value) == ReadValue::good ? "" : "not UTF-8 text";
}

/// Replaces `old`, the value at `path`; a table of keys is merged into the one that stands there.
void lay_over(Value& old, const Value& value, const std::string& path) {
  if (old.kind != Value::Kind::table || value.kind != Value::Kind::table || !find_table(path)) {
    const std::string name = old.name;
    old = value;
    old.name = name;
    return;
  }
  for (const auto& item : value.items) {
    if (Value* same = find(old, item.name))
      lay_over(*same, item, fmt::format("{}.{}", path, item.name));
    else
      old.items.push_back(item);
  }
}

/// Puts `value` at `path`, with the tables on the way.
void insert(Value& tree, std::string_view path, const Value& value, Problems& problems) {
  Value* at = &tree;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('.', begin), path.size());
    if (at->kind != Value::Kind::table) {
      problems.add(place, path,
                   fmt::format("cannot be set ('{}' is {} at {})", at->name, describe(*at), at->place));
      return;
    }
    const auto name = path.substr(begin, end - begin);
    Value* next = find(*at, name);
    if (!next) {
      next = &at->items.emplace_back();
      next->name = name;
      next->place = place;
    }
    at = next;
    begin = end + 1;
  }
  lay_over(*at, value, std::string(path));
}

}  // namespace

void apply_set(const std::string& set, Value& tree, Problems& problems) {
  const auto equals = set.find('=');
  if (equals == set.npos) {
    problems.add(place, "", fmt::format("'{}' has no '=' (a setting reads table.key=value)", set));
    return;
  }
  const auto path = trimmed(std::string_view(set).substr(0, equals));
  const auto text = trimmed(std::string_view(set).substr(equals + 1));
  if (!known(path)) {
    const auto why =
        path.find('.') == path.npos ? "a setting reads table.key=value" : "`weft deck --schema` lists all";
    problems.add(place, path.empty() ? "''" : path,
                 fmt::format("unknown key ({}){}", why, did_you_mean(nearest_key(path))));
    return;
  }
  Value value;
  if (const auto problem = read_value(text, find_key(path), path, value); !problem.empty())
    problems.add(place, path, problem);
  else
    insert(tree, path, value, problems);
}

}  // namespace weft::deck
