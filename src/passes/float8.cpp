// The pass float8: makes products with some weights in 8 bits.
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/builder.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Attr;
using ir::Node;
using ir::Op;
using ir::Phase;
using ir::UnitId;
using ir::ValueId;
using namespace ir::operand;

/// The module of the nodes that make the scales of all weights.
constexpr const char* scales_module = "float8";

class Float8Pass {
 public:
  Float8Pass(const ir::Graph& before, GradientFormat gradients, Float8Scales kind)
      : before_(before),
        after_(before.without_nodes()),
        b_(after_),
        gradients_(gradients),
        kind_(kind),
        units_(before.units().size()) {
    for (std::size_t u = 0; u < before.units().size(); ++u)
      if (before.units()[u].float8) units_[u].slot = slot_of(before.units()[u]);
  }

  ir::Graph run() {
    quantize_weights();
    for (const Node& node : before_.nodes()) {
      b_.at(node.phase, node.round, node.chunk);
      if (is_master(node)) continue;
      if (node.op == Op::view && is_float8(before_.value(node.in(single::from)).unit))
        view(node);
      else if ((node.op == Op::matmul || node.op == Op::matmul_dgrad) && slots_.contains(node.in(matmul::w)))
        product(node);
      else
        after_.add_node(node);
    }
    return std::move(after_);
  }

 private:
  struct OfUnit {
    /// The place of the scale of its matrices [out, in]; behind it is that of those [in, out].
    int slot = -1;
    ValueId master;
    ValueId quantized;
  };

  bool is_float8(UnitId unit) const { return unit.valid() && before_.unit(unit).float8; }
  bool is_master(const Node& node) const {
    return node.op == Op::state && is_float8(before_.value(node.out(single::to)).unit) &&
           before_.storage(before_.value(node.out(single::to)).home).role == ir::Role::master;
  }

  /// Two scales a module, whose matrices may be in two units where neighbours on a tensor axis have some
  /// alike.
  int slot_of(const Unit& unit) {
    const std::string& first = unit.parameters.front().path;
    const auto [at, is_new] = slot_of_module_.emplace(first.substr(0, first.rfind('.')), slot_count());
    return at->second;
  }
  int slot_count() const { return 2 * static_cast<int>(slot_of_module_.size()); }

  // --- Weights, once before all else

  void quantize_weights() {
    b_.at(Phase::forward, 0);
    std::vector<UnitId> list;
    for (const Node& node : before_.nodes()) {
      if (!is_master(node)) continue;
      const UnitId unit = before_.value(node.out(single::to)).unit;
      if (units_[unit.index()].master.valid()) throw std::logic_error("float8: a master is read twice");
      units_[unit.index()].master = node.out(single::to);
      list.push_back(unit);
      Node first = node;  // whatever stage of a pipe reads it
      first.round = 0;
      first.chunk = 0;
      after_.add_node(std::move(first));
    }
    const ValueId scales = scales_of(list);
    for (const UnitId id : list) {
      OfUnit& unit = units_[id.index()];
      const std::string& path = before_.unit(id).path;
      unit.quantized = b_.emit_one(Op::quantize_unit, path, {unit.master, scales}, path + ".float8",
                                   {{Attr::slot, double(unit.slot)}});
      after_.value(unit.quantized).unit = id;
    }
    scales_ = scales;
  }

  /// The scales of all matrices of this rank's layers. A tensor axis has parts of them on each rank; where a
  /// data axis has, the pass shard sees to it.
  ValueId scales_of(const std::vector<UnitId>& list) {
    const ir::Type type{DType::f32, {slot_count()}};
    ValueId largest = b_.zeros(scales_module, type, "float8.zero");
    for (const UnitId id : list)
      largest = b_.emit_one(Op::amax, scales_module, {units_[id.index()].master, largest}, "float8.amax",
                            {{Attr::slot, double(units_[id.index()].slot)}});
    if (before_.mesh().size(tensor_axis) > 1)
      largest = b_.over_axis(Op::all_reduce, {before_.mesh().axis(tensor_axis), Lane::tensor}, scales_module,
                             largest, type, "float8.amax.tensor", {{Attr::largest, 1}});
    return b_.emit_one(Op::float8_scales, scales_module, {largest}, "float8.scales");
  }

  // --- Products

  /// A view of a master becomes one of the quantized unit.
  void view(Node node) {
    const UnitId id = before_.value(node.in(single::from)).unit;
    node.in(single::from) = units_[id.index()].quantized;
    after_.value(node.out(single::to)).type.dtype = DType::e4m3;
    slots_[node.out(single::to)] = units_[id.index()].slot + (is_in_first(node, id) ? 1 : 0);
    after_.add_node(std::move(node));
  }
  bool is_in_first(const Node& view, UnitId id) const {
    for (const Parameter& p : before_.unit(id).parameters)
      if (p.offset == view.attributes.integer(Attr::offset)) return p.in_first;
    throw std::logic_error("float8: a view begins inside a parameter");
  }

  void product(Node node) {
    const ValueId w = node.in(matmul::w);
    const auto [x8, scale] = quantized(node.in(matmul::x), node);
    std::vector<ValueId> inputs{x8, scale, w, scales_};
    if (node.op == Op::matmul_dgrad && node.has(matmul_dgrad::so_far))
      inputs.push_back(node.in(matmul_dgrad::so_far));
    node.op = node.op == Op::matmul ? Op::matmul_f8 : Op::matmul_dgrad_f8;
    node.inputs = std::move(inputs);
    node.attributes.set(Attr::slot, slots_.at(w));
    if (kind_ == Float8Scales::tensorwise) node.attributes.set(Attr::tensorwise, 1);
    after_.add_node(std::move(node));
  }

  /// The rows of x in Float8, and their scales.
  std::pair<ValueId, ValueId> quantized(ValueId x, const Node& reader) {
    const bool wide = reader.phase == Phase::backward && gradients_ == GradientFormat::e5m2;
    const auto known = rows_.find({x, wide});
    if (known != rows_.end()) return known->second;
    ir::Attributes format;
    if (wide) format.set(Attr::e5m2, 1);
    if (kind_ == Float8Scales::tensorwise) format.set(Attr::tensorwise, 1);
    const std::string name = ops::stem(after_.value(x).name) + ".float8";
    const std::vector<ValueId> made =
        b_.emit(Op::quantize, reader.module, {x}, {name, name + ".scale"}, std::move(format));
    return rows_.emplace(std::pair(x, wide), std::pair(made[0], made[1])).first->second;
  }

  const ir::Graph& before_;
  ir::Graph after_;
  ops::Builder b_;
  GradientFormat gradients_;
  Float8Scales kind_;
  std::map<std::string, int> slot_of_module_;
  std::vector<OfUnit> units_;
  ValueId scales_;
  std::map<ValueId, int> slots_;  ///< by view of a weight
  std::map<std::pair<ValueId, bool>, std::pair<ValueId, ValueId>> rows_;
};

}  // namespace

ir::Graph float8(const ir::Graph& graph, GradientFormat gradients, Float8Scales scales) {
  return Float8Pass(graph, gradients, scales).run();
}

}  // namespace weft::passes
