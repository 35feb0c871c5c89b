// Reads a machine profile from TOML (declared in profile.hpp).
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "machine/profile.hpp"

namespace weft::machine {
namespace {

/// Reads one table, in which every key must be there once, and no other key may be.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string name, const std::string& source)
      : table_(table), name_(std::move(name)), source_(source) {}

  [[noreturn]] void fail(const toml::node& at, const std::string& problem) const {
    throw Error(ExitCode::bad_input, fmt::format("{}:{}: {}", source_, at.source().begin.line, problem));
  }

  const toml::node& node(std::string_view key) {
    known_ += (known_.empty() ? "" : ", ") + std::string(key);
    keys_.emplace_back(key);
    const toml::node* const found = table_.get(key);
    if (found == nullptr) fail(table_, fmt::format("{} has no key '{}'", where(), key));
    return *found;
  }

  std::string text(std::string_view key) {
    const toml::node& n = node(key);
    if (!n.is_string()) fail(n, fmt::format("'{}' is not text (write \"...\")", key));
    return n.as_string()->get();
  }

  /// A finite number that is at least `low` or, with `open`, above it.
  double number(std::string_view key, double low, bool open = false) {
    return number_of(node(key), key, low, open);
  }
  double number_of(const toml::node& n, std::string_view what, double low, bool open) const {
    if (!n.is_number()) fail(n, fmt::format("'{}' is not a number", what));
    const double x = *n.value<double>();
    if (!std::isfinite(x) || x < low || (open && x == low))
      fail(n, fmt::format("'{}' is {} (it is {} {})", what, x, open ? "above" : "at least", low));
    return x;
  }

  int count(std::string_view key, int low) {
    const toml::node& n = node(key);
    if (!n.is_integer()) fail(n, fmt::format("'{}' is not a whole number", key));
    const std::int64_t x = n.as_integer()->get();
    if (x < low || x > std::numeric_limits<int>::max())
      fail(n, fmt::format("'{}' is {} (it is at least {})", key, x, low));
    return static_cast<int>(x);
  }

  const toml::array& array(std::string_view key) {
    const toml::node& n = node(key);
    if (!n.is_array()) fail(n, fmt::format("'{}' is not an array", key));
    return *n.as_array();
  }

  TableReader table(std::string_view key) {
    const toml::node& n = node(key);
    if (!n.is_table()) fail(n, fmt::format("'{}' is not a table", key));
    return {*n.as_table(), name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key), source_};
  }

  /// Call it after the last key: it throws when a key is left over.
  void finish() const {
    for (const auto& [key, n] : table_)
      if (std::find(keys_.begin(), keys_.end(), key.str()) == keys_.end())
        throw Error(ExitCode::bad_input, fmt::format("{}:{}: unknown key '{}' (keys of {}: {})", source_,
                                                     key.source().begin.line, key.str(), where(), known_));
  }

  const toml::table& entries() const { return table_; }
  bool has(std::string_view key) const { return table_.contains(key); }

 private:
  std::string where() const { return name_.empty() ? "a machine profile" : '[' + name_ + ']'; }

  const toml::table& table_;
  std::string name_;
  const std::string& source_;
  std::vector<std::string> keys_;
  std::string known_;
};

/// The values of a list that must have exactly N numbers of at least 0.
template <std::size_t N>
std::array<double, N> numbers(const TableReader& reader, const toml::node& n, const char* what) {
  const toml::array* const list = n.as_array();
  if (list == nullptr || list->size() != N) reader.fail(n, fmt::format("{} (a list of {} numbers)", what, N));
  std::array<double, N> values{};
  for (std::size_t i = 0; i < N; ++i) values[i] = reader.number_of((*list)[i], what, 0, false);
  return values;
}

/// FLOPs or bytes a second. So few that a step would take years are a mistake.
double rate(TableReader& t, std::string_view key) {
  constexpr double least = 1000;
  return t.number(key, least);
}

Compute read_compute(TableReader t) {
  Compute c;
  c.threads = t.count("threads", 0);
  c.matmul_f32 = rate(t, "matmul_f32");
  c.matmul_bf16 = rate(t, "matmul_bf16");
  if (t.has("matmul_f8")) c.matmul_f8 = rate(t, "matmul_f8");
  if (t.has("matmul_f8_tensorwise")) c.matmul_f8_tensorwise = rate(t, "matmul_f8_tensorwise");
  c.attention = rate(t, "attention");
  c.bytes_per_s = rate(t, "bytes_per_s");
  c.launch_s = t.number("launch_s", 0);
  c.memory_bytes = t.number("memory_bytes", 0);
  if (t.has("peak_f32")) c.peak_f32 = rate(t, "peak_f32");
  if (t.has("peak_bf16")) c.peak_bf16 = rate(t, "peak_bf16");
  t.finish();
  return c;
}

double speed(TableReader& t, std::string_view key) {
  const double x = t.number(key, 0, true);
  if (x > 1) t.fail(*t.entries().get(key), fmt::format("'{}' is {} (at most 1: the speed alone)", key, x));
  return x;
}

ReplicaSharing read_replica_sharing(TableReader t) {
  ReplicaSharing s;
  s.beside_lanes = speed(t, "beside_lanes");
  s.beside_compute = speed(t, "beside_compute");
  s.stolen_s_per_byte = t.number("stolen_s_per_byte", 0);
  t.finish();
  return s;
}

Sharing read_sharing(TableReader t) {
  Sharing s;
  s.link_bytes_per_s = rate(t, "link_bytes_per_s");
  s.both_lanes = speed(t, "both_lanes");
  s.beside_compute = speed(t, "beside_compute");
  s.stolen_s_per_byte = t.number("stolen_s_per_byte", 0);
  if (t.has("replica")) s.replica = read_replica_sharing(t.table("replica"));
  t.finish();
  return s;
}

ir::Op read_op(TableReader& t) {
  const std::string name = t.text("op");
  for (const ir::Op op : {ir::Op::all_gather, ir::Op::reduce_scatter, ir::Op::all_reduce})
    if (name == name_of(op)) return op;
  t.fail(*t.entries().get("op"),
         fmt::format("'{}' is no collective (all_gather, reduce_scatter, all_reduce)", name));
}

DType read_wire(TableReader& t) {
  const std::string name = t.text("wire");
  for (const DType type : {DType::f32, DType::bf16})
    if (name == name_of(type)) return type;
  t.fail(*t.entries().get("wire"), fmt::format("'{}' does not travel (f32, bf16)", name));
}

CollectiveCurve read_curve(TableReader t) {
  CollectiveCurve curve;
  curve.op = read_op(t);
  curve.wire = read_wire(t);
  curve.ranks = t.count("ranks", 2);
  curve.nodes = t.count("nodes", 1);
  const toml::array& points = t.array("points");
  if (points.empty()) t.fail(points, "'points' is empty (measure at least one size)");
  for (const toml::node& n : points) {
    const auto [bytes, seconds] = numbers<2>(t, n, "a point is not [bytes, seconds]");
    if (bytes <= (curve.points.empty() ? 0 : curve.points.back().bytes))
      t.fail(n, fmt::format("a point of {} bytes (bytes are above 0 and ascend)", bytes));
    if (seconds <= 0) t.fail(n, "a point of 0 seconds (seconds are above 0)");
    curve.points.push_back({bytes, seconds});
  }
  t.finish();
  return curve;
}

std::vector<CollectiveCurve> read_curves(TableReader& top, const std::string& source) {
  std::vector<CollectiveCurve> curves;
  if (!top.has("collective")) return curves;  // a profile of one rank has no curves
  for (const toml::node& n : top.array("collective")) {
    if (!n.is_table()) top.fail(n, "'collective' is not a list of tables (write [[collective]])");
    curves.push_back(read_curve({*n.as_table(), "[collective]", source}));
  }
  return curves;
}

/// Reads the kernels. toml++ keeps a table's keys in ascending order, which is that of Profile::kernels, too.
std::vector<KernelSample> read_kernels(const TableReader& t) {
  std::vector<KernelSample> kernels;
  for (const auto& [key, n] : t.entries()) {
    const auto [seconds, flops, bytes] = numbers<3>(t, n, "a kernel is not [seconds, FLOP, bytes]");
    if (seconds <= 0) t.fail(n, "a kernel of 0 seconds (seconds are above 0)");
    kernels.push_back({std::string(key.str()), seconds, flops, bytes});
  }
  return kernels;
}

std::map<std::string, std::string> read_algorithms(const TableReader& t) {
  std::map<std::string, std::string> algorithms;
  for (const auto& [key, n] : t.entries()) {
    const auto text = n.value_exact<std::string>();
    if (!text) t.fail(n, "an algorithm is not a text (as weft profile wrote it)");
    algorithms.emplace(key.str(), *text);
  }
  return algorithms;
}

toml::table parse_toml(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text, std::string_view(source));
  } catch (const toml::parse_error& e) {
    throw Error(ExitCode::bad_input,
                fmt::format("{}:{}: not valid TOML ({})", source, e.source().begin.line, e.description()));
  }
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& source) {
  const toml::table tree = parse_toml(text, source);
  TableReader top(tree, "", source);
  Profile p;
  p.name = top.text("name");
  p.ranks_per_node = top.count("ranks_per_node", 1);
  p.compute = read_compute(top.table("compute"));
  p.sharing = read_sharing(top.table("sharing"));
  p.collectives = read_curves(top, source);
  if (top.has("kernels")) p.kernels = read_kernels(top.table("kernels"));
  if (top.has("algorithms")) p.algorithms = read_algorithms(top.table("algorithms"));
  top.finish();
  return p;
}

}  // namespace weft::machine
