// Reads the text form of a graph (declared in text.hpp).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <span>
#include <string>

#include "base/check.hpp"
#include "base/per_lane.hpp"
#include "base/quoted.hpp"
#include "ir/text.hpp"

namespace weft::ir {
namespace {

// The most elements of a shape or a unit: with them products stay within 63 bits.
constexpr std::int64_t most_elements = std::int64_t{1} << 48;

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ExitCode::bad_input, problem);
}

/// Reads one line from left to right.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) {}

  void end() const {
    if (!rest_.empty()) fail(fmt::format("text is left over at the line's end: '{}'", rest_.substr(0, 20)));
  }
  bool accept(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("expected '{}' at '{}'", token, rest_.substr(0, 20)));
  }
  /// The text up to (not including) the first of `stops`, which may be the line's end.
  std::string_view word(std::string_view stops) {
    const std::size_t n = std::min(rest_.find_first_of(stops), rest_.size());
    if (n == 0) fail(fmt::format("a name is missing at '{}'", rest_.substr(0, 20)));
    const std::string_view w = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return w;
  }
  template <class Number>
  Number number(std::string_view stops) {
    const std::string_view w = word(stops);
    Number value{};
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), value);
    if (error != std::errc{} || end != w.data() + w.size()) fail(fmt::format("'{}' is not a number", w));
    return value;
  }
  /// Reads a number of elements, or an offset in elements.
  std::int64_t elements(std::string_view stops) {
    const auto n = number<std::int64_t>(stops);
    if (n < 0 || n > most_elements) fail(fmt::format("{} is no number of elements", n));
    return n;
  }

 private:
  std::string_view rest_;
};

Shape parse_shape(Line& line) {
  Shape shape;
  line.expect("[");
  if (line.accept("]")) return shape;
  std::int64_t elements = 1;
  do {
    if (shape.size() == Shape::capacity()) fail("a shape has too many extents");
    shape.push_back(line.elements(",]"));
    if (shape.back() > 0 && elements > most_elements / shape.back()) fail("a shape has too many elements");
    elements *= std::max<std::int64_t>(shape.back(), 1);
  } while (line.accept(","));
  line.expect("]");
  return shape;
}

Placements parse_placement(Line& line, const Shape& shape) {
  Placements placement;
  if (!line.accept("{")) return placement;
  do {
    if (placement.size() == Placements::capacity()) fail("a placement has too many axes");
    if (line.accept("R")) {
      placement.push_back(replicate);
    } else if (line.accept("P")) {
      placement.push_back(partial);
    } else {
      line.expect("S");
      const int dim = line.number<int>(",}");
      if (dim < 0 || static_cast<std::size_t>(dim) >= shape.size())
        fail(fmt::format("a cut along dimension {} of {}", dim, shape.size()));
      placement.push_back(shard(dim));
    }
  } while (line.accept(","));
  line.expect("}");
  return placement;
}

template <class Enum>
Enum parse_enum(std::string_view word, std::span<const Enum> all) {
  for (Enum e : all)
    if (name_of(e) == word) return e;
  fail(fmt::format("unknown word '{}'", word));
}
template <class Enum>
Enum parse_enum(std::string_view word, std::initializer_list<Enum> all) {
  return parse_enum(word, std::span(all.begin(), all.size()));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph run() {
    try {
      parse_header();
      while (next()) parse_line(Line(current_));
    } catch (const Error& e) {
      throw Error(ExitCode::bad_input,
                  fmt::format("graph text:{}: {}", std::max(number_, 1), one_line(e.what())));
    }
    return std::move(graph_);
  }

 private:
  void parse_line(Line line) {
    if (line.accept("storage ")) {
      parse_storage(line);
    } else {
      parse_node(line);
    }
    line.end();
  }
  bool next() {
    if (text_.empty()) return false;
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    current_ = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    ++number_;
    return true;
  }
  bool next_starts_with(std::string_view prefix) const { return text_.starts_with(prefix); }

  void parse_header() {
    if (!next()) fail("the text is empty");
    Line first(current_);
    first.expect("graph ");
    const std::string name(first.word(""));
    std::vector<MeshAxis> axes;
    if (next_starts_with("mesh") && next()) {
      Line line(current_);
      line.expect("mesh");
      while (line.accept(" ")) {
        std::string axis(line.word("="));
        line.expect("=");
        axes.push_back({std::move(axis), line.number<int>(" ")});
      }
      line.end();
    }
    Mesh mesh(std::move(axes));
    std::vector<Unit> units;
    while (next_starts_with("unit ") && next()) {
      units.push_back(parse_unit());
      if (!unit_names_.insert(units.back().path).second)
        fail(fmt::format("the graph has two units named '{}'", units.back().path));
    }
    graph_ = Graph(name, std::move(mesh), std::move(units));
  }

  Unit parse_unit() {
    Line line(current_);
    line.expect("unit ");
    Unit unit;
    unit.path = line.word(" ");
    line.expect(" ");
    unit.elements = line.elements(" ");
    if (line.accept(" ")) {
      unit.copy = line.accept("copy_of ");
      if (!unit.copy) line.expect("copied_by ");
      unit.twin = line.number<int>(" ");
      if (unit.twin < 0) fail(fmt::format("{} is no place on a pipe", unit.twin));
    }
    line.end();
    while (next_starts_with("  ") && next()) {
      Line entry(current_);
      entry.expect("  ");
      Parameter p;
      p.path = entry.word(" ");
      entry.expect(" ");
      p.shape = parse_shape(entry);
      entry.expect(" ");
      p.offset = entry.elements(" ");
      entry.end();
      unit.parameters.push_back(std::move(p));
    }
    return unit;
  }

  /// Reads dtype[shape]u(unit){placement}.
  void parse_type(Line& line, Type& type, UnitId& unit, Placements& placement) {
    type.dtype = dtype_from(line.word("["));
    type.shape = parse_shape(line);
    if (line.accept("u(")) {
      const std::string_view path = line.word(")");
      for (std::size_t i = 0; i < graph_.units().size(); ++i)
        if (graph_.units()[i].path == path) unit = UnitId(i);
      if (!unit.valid()) fail(fmt::format("unknown unit '{}'", path));
      line.expect(")");
    }
    placement = parse_placement(line, type.shape);
  }

  void parse_storage(Line& line) {
    Storage s;
    s.name = line.word(" ");
    line.expect(" ");
    s.role = parse_enum(line.word(" "), {Role::parameter, Role::master, Role::exp_avg, Role::exp_avg_sq,
                                         Role::gradient, Role::input, Role::constant, Role::report});
    line.expect(" ");
    parse_type(line, s.type, s.unit, s.placement);
    graph_.add_storage(std::move(s));
  }

  ValueId parse_output(Line& line) {
    Value v;
    v.name = line.word(":");
    line.expect(":");
    parse_type(line, v.type, v.unit, v.placement);
    if (line.accept("@")) {
      const std::string_view home = line.word(", ");
      v.home = graph_.find_storage(home);
      if (!v.home.valid()) fail(fmt::format("unknown storage '{}'", home));
    }
    if (graph_.find_value(v.name).valid()) fail(fmt::format("'{}' is defined twice", v.name));
    return graph_.add_value(std::move(v));
  }

  void parse_node(Line& line) {
    Node node;
    node.phase = parse_enum(line.word(" "), {Phase::forward, Phase::backward, Phase::update});
    line.expect(" r");
    node.round = line.number<int>(" .");
    if (line.accept(".")) node.chunk = line.number<int>(" ");
    line.expect(" ");
    node.lane = parse_enum<Lane>(line.word(" "), std::span(all_lanes));
    line.expect(" ");
    if (!line.accept("| ")) {
      node.module = line.word(" ");
      line.expect(" | ");
    }
    if (!line.accept(" = ")) {  // a send has no output
      do {
        node.outputs.push_back(parse_output(line));
      } while (line.accept(", "));
      line.expect(" = ");
    }
    node.op = op_from(line.word("("));
    line.expect("(");
    while (!line.accept(")")) {
      const std::string_view name = line.word(",)");
      const ValueId input = graph_.find_value(name);
      if (!input.valid()) fail(fmt::format("'{}' is used before it is defined", name));
      node.inputs.push_back(input);
      line.accept(", ");
    }
    while (line.accept(" ")) {
      const Attr attr = attr_from(line.word("="));
      line.expect("=");
      const auto value = line.number<double>(" ");
      if (!std::isfinite(value)) fail(fmt::format("{} is no attribute's value", value));
      node.attributes.set(attr, value);
    }
    graph_.add_node(std::move(node));
  }

  std::string_view text_, current_;
  int number_ = 0;
  std::set<std::string> unit_names_;
  Graph graph_;
};

}  // namespace

Graph parse(std::string_view text) {
  return Parser(text).run();
}

}  // namespace weft::ir
