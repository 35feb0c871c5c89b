#include "deck/assign.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "deck/bytes.hpp"
#include "deck/duration.hpp"
#include "deck/suggest.hpp"

namespace weft::deck {
namespace {

using Kind = Value::Kind;

constexpr std::array axis_names{replica_axis, data_axis, pipe_axis, context_axis, tensor_axis};
constexpr double most_ranks = 1 << 24;

std::string shortened(std::string_view text) {
  constexpr std::size_t most = 60;
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  // The text must not be cut inside a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

/// Writes one value; when it cannot, `problem` says why.
struct Assigner {
  const Key& key;
  const Value& value;
  Problems& problems;
  std::string problem{};

  void mistype(const std::string& type, const std::string& literal = {}) {
    const std::string range = range_text(key.range);
    problem = fmt::format("{} is not {}{}", describe(value), type,
                          range.empty() ? "" : fmt::format(" ({})", range));
    if (!literal.empty()) problem += fmt::format("; did you mean {}?", literal);
  }

  /// The value inside a quoted string, when that string is itself a TOML value of the kind that is wanted.
  std::string unquoted(Kind wanted) const {
    Value inner;
    const bool is = value.kind == Kind::text && read_toml_value(value.text, "", inner) == ReadValue::good &&
                    (inner.kind == wanted || (wanted == Kind::real && inner.kind == Kind::integer));
    return is ? value.text : std::string{};
  }

  /// The number that the text is, where 64 bits do not hold it. --set takes such a number for text, because
  /// TOML has none.
  std::optional<double> oversized() const {
    return value.kind == Kind::text ? oversized_number(value.text) : std::nullopt;
  }

  void out_of_range(double number, const std::string& largest) {
    const std::string given =
        value.kind == Kind::text ? shortened(value.text) : fmt::format("{}", value.real);
    problem = number > 0 ? fmt::format("{} is too large; use at most {}", given, largest)
                         : fmt::format("{} is out of range ({})", given, range_text(key.range));
  }

  bool printable(const std::string& text) {
    for (const char c : text)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        problem = "contains a control character (names and paths are plain text)";
        return false;
      }
    return true;
  }

  void operator()(bool* member) {
    if (value.kind == Kind::boolean) {
      *member = value.boolean;
      return;
    }
    const auto is = [this](std::string_view text, std::int64_t integer) {
      return value.kind == Kind::text ? value.text == text
                                      : value.kind == Kind::integer && value.integer == integer;
    };
    const bool yes = is("true", 1) || is("True", 1) || is("yes", 1) || is("on", 1);
    const bool no = is("false", 0) || is("False", 0) || is("no", 0) || is("off", 0);
    mistype("true or false", yes ? "true" : no ? "false" : "");
  }

  void operator()(std::int64_t* member) {
    if (value.kind == Kind::integer) {
      *member = value.integer;
      return;
    }
    const double number = value.kind == Kind::real ? value.real : oversized().value_or(0);
    if (std::abs(number) >= 0x1p63) {
      const bool open = std::isinf(key.range.high);
      const auto most = std::numeric_limits<std::int64_t>::max();
      return out_of_range(number, open ? fmt::format("{}", most) : fmt::format("{:.0f}", key.range.high));
    }
    const bool whole = value.kind == Kind::real && std::abs(value.real) < 9e15 &&
                       value.real == std::floor(value.real) && key.range.holds(value.real);
    mistype("an integer", whole ? fmt::format("{:.0f}", value.real) : unquoted(Kind::integer));
  }

  void operator()(double* member) {
    if (value.kind == Kind::integer)
      *member = static_cast<double>(value.integer);
    else if (value.kind == Kind::real && std::isfinite(value.real))
      *member = value.real;
    else if (value.kind == Kind::real)
      problem = fmt::format("{} is not a finite number", value.real);
    else if (const auto number = oversized(); number && std::isfinite(*number))
      *member = *number;
    else if (number)
      // Where the key has no end of its own, the most that fp32 holds, in which nearly all of them are taken.
      out_of_range(*number, fmt::format("{:.15g}", std::isinf(key.range.high) ? 3.4e38 : key.range.high));
    else if (key.form == Form::plain)
      mistype("a number", unquoted(Kind::real));
    else if (key.form == Form::bytes)
      bytes(member);
    else if (const auto seconds = parse_duration(value.text); seconds && !value.text.empty())
      *member = *seconds;
    else
      problem =
          fmt::format("{} is not a duration (seconds, \"2h30m\", \"90s\", \"HH:MM:SS\" or \"D-HH:MM:SS\")",
                      describe(value));
  }

  void bytes(double* member) {
    if (const auto size = parse_bytes(value.text); size && value.kind == Kind::text)
      *member = *size;
    else
      problem = fmt::format("{} is not a number of bytes (a number, \"4GiB\", \"512MiB\" or \"1.5GB\")",
                            describe(value));
  }

  void operator()(std::string* member) {
    if (value.kind != Kind::text)
      mistype("a string", value.kind == Kind::integer ? fmt::format("\"{}\"", value.integer) : "");
    else if (printable(value.text))
      *member = value.text;
  }

  void operator()(std::vector<std::string>* member) {
    std::vector<std::string> list;
    if (value.kind == Kind::text) {
      if (!printable(value.text)) return;
      list.push_back(value.text);
    } else if (value.kind != Kind::array) {
      return mistype("a string or an array of strings");
    }
    for (const auto& item : value.items) {
      if (item.kind != Kind::text) {
        problem = fmt::format("{} in the array is not a string", describe(item));
        return;
      }
      if (!printable(item.text)) return;
      list.push_back(item.text);
    }
    *member = std::move(list);
  }

  void operator()(std::vector<std::int64_t>* member) {
    if (value.kind != Kind::array) return mistype("an array of integers");
    std::vector<std::int64_t> list;
    for (const auto& item : value.items) {
      if (item.kind != Kind::integer) {
        problem = fmt::format("{} in the array is not an integer", describe(item));
        return;
      }
      list.push_back(item.integer);
    }
    *member = std::move(list);
  }

  void operator()(std::vector<MeshAxis>* member) {
    if (value.kind == Kind::text && value.text == "auto") {
      member->clear();
      return;
    }
    if (value.kind != Kind::table) {
      const bool ranks = value.kind == Kind::integer && value.integer >= 0;
      return mistype("a table of axes, { name = ranks }, or \"auto\"",
                     ranks ? fmt::format("{{ data = {} }}", value.integer) : "");
    }
    member->clear();
    for (const auto& item : value.items) {
      const std::string path = fmt::format("{}.{}", key.path, item.name);
      if (std::find(axis_names.begin(), axis_names.end(), item.name) == axis_names.end())
        problems.add(item.place, path,
                     fmt::format("unknown axis (axes: {}){}", fmt::join(axis_names, ", "),
                                 did_you_mean(nearest_word(item.name, axis_names))));
      else if (item.kind != Kind::integer)
        problems.add(item.place, path,
                     describe(item) + " is not an integer (ranks on the axis; 0: all that remain)");
      else if (item.integer < 0 || static_cast<double>(item.integer) > most_ranks)
        problems.add(item.place, path,
                     fmt::format("{} is out of range (0 to {:.0f} ranks; 0: all that remain)", item.integer,
                                 most_ranks));
      else
        member->push_back({item.name, static_cast<int>(item.integer)});
    }
    if (member->empty()) member->push_back({std::string(data_axis), 0});
  }

  template <class E>
  void operator()(E* member) {
    std::vector<std::string_view> names;
    for (const auto& [choice, name] : choices(E{})) {
      names.push_back(name);
      if (value.kind == Kind::text && value.text == name) {
        *member = choice;
        return;
      }
    }
    const bool text = value.kind == Kind::text;
    const std::string given = value.kind == Kind::boolean ? (value.boolean ? "true" : "false") : value.text;
    problem = fmt::format("{} is not one of the choices ({}){}",
                          text ? fmt::format("'{}'", shortened(value.text)) : describe(value),
                          choice_list(E{}), did_you_mean(nearest_word(given, names)));
  }
};

}  // namespace

std::string describe(const Value& value) {
  switch (value.kind) {
    case Kind::boolean: return value.boolean ? "the boolean true" : "the boolean false";
    case Kind::integer: return fmt::format("the integer {}", value.integer);
    case Kind::real: return fmt::format("the number {}", value.real);
    case Kind::text: return fmt::format("the string \"{}\"", shortened(value.text));
    case Kind::time: return fmt::format("the time {}", value.text);
    case Kind::date: return fmt::format("the date {}", value.text);
    case Kind::array: return "an array";
    case Kind::table: return "a table";
  }
  return "?";
}

std::string range_problem(const Key& key, Deck& deck) {
  return std::visit(
      [&key](auto* member) -> std::string {
        using T = std::remove_pointer_t<decltype(member)>;
        if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>)
          if (!key.range.holds(static_cast<double>(*member)))
            return fmt::format("{} is out of range ({})", *member, range_text(key.range));
        if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
          for (const std::int64_t item : *member)
            if (!key.range.holds(static_cast<double>(item)))
              return fmt::format("{} in the array is out of range ({})", item, range_text(key.range));
        return {};
      },
      key.slot(deck));
}

void assign(const Key& key, const Value& value, Deck& deck, Problems& problems) {
  Assigner assigner{key, value, problems};
  std::visit(assigner, key.slot(deck));
  if (assigner.problem.empty()) assigner.problem = range_problem(key, deck);
  if (!assigner.problem.empty()) problems.add(value.place, key.path, assigner.problem);
}

}  // namespace weft::deck
