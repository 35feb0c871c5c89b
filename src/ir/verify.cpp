#include "ir/verify.hpp"

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph),
        defined_(graph.values().size(), false),
        stale_(graph.values().size(), false),
        current_(graph.storages().size()),
        uses_(graph.values().size(), 0) {}

  void run() {
    for (const Node& node : graph_.nodes())
      for (ValueId input : node.inputs) ++uses_[input.index()];
    for (const Node& node : graph_.nodes()) {
      node_ = &node;
      check_inputs();
      check_lane();
      if (node.op == Op::view) check_view();
      if (node.op == Op::join) check_join();
      define_outputs();
    }
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    const std::string output = node_->outputs.empty() ? "" : graph_.value(node_->outputs.front()).name;
    throw std::logic_error(
        fmt::format("graph {}: node {} = {}: {}", graph_.name(), output, name_of(node_->op), problem));
  }

  void check_inputs() const {
    if (is_alias(node_->op) && node_->op != Op::state && node_->inputs.empty()) fail("has no input");
    for (ValueId input : node_->inputs) {
      if (!input.valid()) fail("an input is missing");
      if (!defined_[input.index()])
        fail(fmt::format("reads '{}' before it is defined", graph_.value(input).name));
      if (stale_[graph_.alias_root(input).index()])
        fail(fmt::format("reads '{}', an overwritten version of its storage", graph_.value(input).name));
    }
  }

  void check_lane() const {
    if (!fits(node_->lane)) fail(fmt::format("stands on the {} lane", name_of(node_->lane)));
  }
  bool fits(Lane lane) const {
    if (is_collective(node_->op)) return axis_of(lane) == axis_name();
    if (node_->op == Op::send) return lane == Lane::to_previous || lane == Lane::to_next;
    if (node_->op == Op::recv) return lane == Lane::from_previous || lane == Lane::from_next;
    return lane == Lane::compute;
  }
  /// The axis that the node communicates over.
  std::string_view axis_name() const {
    const auto& axes = graph_.mesh().axes();
    const std::int64_t axis = node_->attributes.integer(Attr::axis);
    if (axis < 0 || axis >= static_cast<std::int64_t>(axes.size())) fail("is over no axis of the mesh");
    return axes[static_cast<std::size_t>(axis)].name;
  }

  void check_view() const {
    const Value& whole = graph_.value(node_->in(operand::single::from));
    const Value& part = graph_.value(node_->out(operand::single::to));
    if (!whole.unit.valid()) fail("is not a view of a unit");
    const std::int64_t offset = node_->attributes.integer(Attr::offset);
    if (offset < 0 || offset + element_count(part.type.shape) > graph_.unit(whole.unit).elements)
      fail("leaves its unit");
    if (part.type.dtype != whole.type.dtype) fail("changes the element type");
  }

  void check_join() const {
    const Value& whole = graph_.value(node_->out(operand::single::to));
    if (!whole.unit.valid()) return;
    const Unit& unit = graph_.unit(whole.unit);
    std::size_t next = 0;  // the parameter that comes next
    std::int64_t offset = 0;
    for (const ValueId input : node_->inputs) {
      const Value& part = graph_.value(input);
      if (next < unit.parameters.size() && unit.parameters[next].offset != offset)
        fail(fmt::format("'{}' would not stand at its parameter's place", part.name));
      offset += element_count(part.type.shape);
      next = check_part(part, unit, next);
      if (part.type.dtype != whole.type.dtype)
        fail(fmt::format("'{}' has the wrong element type", part.name));
      if (uses_[input.index()] != 1) fail(fmt::format("its part '{}' is used elsewhere, too", part.name));
      if (is_alias(graph_.node(part.producer).op))
        fail(fmt::format("its part '{}' stands elsewhere already", part.name));
    }
    if (next != unit.parameters.size()) fail("does not hold every parameter of its unit");
  }

  /// Checks a part of a join. It is a parameter, or several that follow each other, rows below rows. Returns
  /// the index of the parameter behind them.
  std::size_t check_part(const Value& part, const Unit& unit, std::size_t next) const {
    if (next < unit.parameters.size() && part.type.shape == unit.parameters[next].shape) return next + 1;
    std::int64_t missing = element_count(part.type.shape);
    while (missing > 0 && next < unit.parameters.size()) {
      const Shape& shape = unit.parameters[next++].shape;
      const bool below = !shape.empty() && !part.type.shape.empty() && shape.back() == part.type.shape.back();
      missing = below ? missing - element_count(shape) : -1;
    }
    if (missing != 0) fail(fmt::format("'{}' has the wrong shape", part.name));
    return next;
  }

  void define_outputs() {
    for (ValueId output : node_->outputs) {
      const Value& value = graph_.value(output);
      if (defined_[output.index()]) fail(fmt::format("defines '{}' again", value.name));
      if (!value.placement.empty() && value.placement.size() != graph_.mesh().axes().size())
        fail(fmt::format("'{}' is placed over {} axes, the mesh has {}", value.name, value.placement.size(),
                         graph_.mesh().axes().size()));
      defined_[output.index()] = true;
      if (value.home.valid() && node_->op != Op::view && node_->op != Op::rank_slice)
        replace_version(output, value.home);
    }
  }

  /// Makes `output` what its storage holds from here on. Another `state` of that storage reads the same
  /// version.
  void replace_version(ValueId output, StorageId home) {
    std::vector<ValueId>& versions = current_[home.index()];
    if (node_->op != Op::state) {
      for (ValueId old : versions) stale_[old.index()] = true;
      versions.clear();
    }
    versions.push_back(output);
  }

  const Graph& graph_;
  const Node* node_ = nullptr;
  std::vector<bool> defined_, stale_;
  std::vector<std::vector<ValueId>> current_;
  std::vector<int> uses_;
};

}  // namespace

void verify(const Graph& graph) {
  Verifier(graph).run();
}

}  // namespace weft::ir
