// The pass norms_apart: gives norms whose weights have other types than the matrices beside them a unit of
// their own.
#include <utility>
#include <vector>

#include "ops/builder.hpp"
#include "passes/passes.hpp"
#include "passes/regrouped.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::StorageId;
using ir::ValueId;
using namespace ir::operand;

class NormsApart {
 public:
  explicit NormsApart(const ir::Graph& before)
      : before_(before),
        after_(before.name(), before.mesh(), with_norms_apart(before.units())),
        b_(after_),
        parameters_(before, after_, b_),
        values_(before.values().size()),
        storages_(before.storages().size()) {}

  ir::Graph run() {
    for (const Node& node : before_.nodes()) {
      b_.at(node.phase, node.round, node.chunk);
      if (node.op == Op::state && before_.value(node.out(single::to)).unit.valid()) continue;
      if (node.op == Op::view)
        values_[node.out(single::to).index()] = parameters_.view(node);
      else
        copy(node);
    }
    return std::move(after_);
  }

 private:
  void copy(Node node) {
    for (ValueId& input : node.inputs) input = values_[input.index()];
    for (ValueId& output : node.outputs) {
      ir::Value value = before_.value(output);
      if (value.home.valid()) {
        StorageId& own = storages_[value.home.index()];
        if (!own.valid()) own = after_.add_storage(before_.storage(value.home));
        value.home = own;
      }
      const ValueId before = std::exchange(output, after_.add_value(std::move(value)));
      values_[before.index()] = output;
    }
    after_.add_node(std::move(node));
  }

  const ir::Graph& before_;
  ir::Graph after_;
  ops::Builder b_;
  Regrouped parameters_;
  std::vector<ValueId> values_;      ///< by value of the graph before
  std::vector<StorageId> storages_;  ///< of inputs, constants and reports, by those of the graph before
};

}  // namespace

std::vector<Unit> with_norms_apart(const std::vector<Unit>& units) {
  std::vector<Unit> list;
  Unit whole;
  for (const Unit& unit : units) {
    Unit own = without_parameters(unit);
    const bool apart = unit.float8 || unit.f32_norms;
    for (const Parameter& p : unit.parameters) append(apart && is_norm(p) ? whole : own, p);
    whole.f32_norms = whole.f32_norms || unit.f32_norms;
    // A head with tied embeddings has nothing but its norm, and would be an empty unit.
    if (!own.parameters.empty()) list.push_back(std::move(own));
  }
  put_whole_first(std::move(whole), list);
  return list;
}

ir::Graph norms_apart(const ir::Graph& graph) {
  return NormsApart(graph).run();
}

}  // namespace weft::passes
