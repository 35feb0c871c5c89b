// The pass partition: cuts a model over the tensor axis of the mesh.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/builder.hpp"
#include "ops/shapes.hpp"
#include "passes/passes.hpp"
#include "passes/regrouped.hpp"

namespace weft::passes {
namespace {

using ir::Attr;
using ir::Node;
using ir::Op;
using ir::StorageId;
using ir::ValueId;
using ops::stem;
using namespace ir::operand;

/// How a value lies over the ranks of the tensor axis.
enum class Split : std::uint8_t {
  whole,    ///< every rank has all of it
  rows,     ///< a rank has some of the tokens, a run of the rows of [batch, seq, width]
  columns,  ///< a rank has some of the width of every row: some heads, or a part of the vocabulary
  partial   ///< every rank has a term of the sum that it is
};

/// What an operation does over the axis: how it wants its activations, and how its results lie then. Its
/// parameters and inputs are as the model's table says, and as every rank has them.
struct Rule {
  Split activations, results;
};

/// The rule of an operation; nothing where the pass has none.
std::optional<Rule> rule_of(Op op) {
  switch (op) {
    case Op::embedding: return Rule{Split::whole, Split::partial};       // a row is in one rank's table
    case Op::matmul: return Rule{Split::whole, Split::columns};          // by some of the outputs
    case Op::matmul_dgrad: return Rule{Split::columns, Split::partial};  // by some of the inputs
    case Op::rope:
    case Op::attention:
    case Op::swiglu: return Rule{Split::columns, Split::columns};
    case Op::rms_norm:
    case Op::add:
    case Op::send:
    case Op::recv: return Rule{Split::rows, Split::rows};
    case Op::zeros:
    case Op::reduce_totals: return Rule{Split::whole, Split::whole};
    default: return std::nullopt;
  }
}

class PartitionPass {
 public:
  explicit PartitionPass(const ir::Graph& before)
      : before_(before),
        after_(before.name(), before.mesh(), partitioned(before.units(), before.mesh().size(tensor_axis))),
        b_(after_),
        ranks_(before.mesh().size(tensor_axis)),
        axis_(before.mesh().axis(tensor_axis)),
        over_{axis_, Lane::tensor},
        parameters_(before, after_, b_),
        values_(before.values().size()),
        storages_(before.storages().size()) {}

  ir::Graph run() {
    for (const Node& node : before_.nodes()) {
      b_.at(node.phase, node.round, node.chunk);
      switch (node.op) {
        case Op::state: state(node); break;
        case Op::view:
          values_[node.out(single::to).index()] = {parameters_.view(node), Split::whole, {}};
          break;
        case Op::cross_entropy: loss(node); break;
        default: compute(node); break;
      }
    }
    return std::move(after_);
  }

 private:
  /// A value of the graph before, as it is in this one.
  struct Local {
    ValueId value;
    Split split = Split::whole;
    ValueId gathered;  ///< all of it, once something has asked for that
  };

  // --- Parameters and inputs

  void state(const Node& node) {
    const ir::Value& value = before_.value(node.out(single::to));
    if (value.unit.valid()) return;  // the views are of other units
    Node own = node;
    own.out(single::to) = add_like(node.out(single::to), value.type, value.name);
    after_.add_node(std::move(own));
  }

  // --- Operations

  void compute(const Node& node) {
    const std::optional<Rule> rule = rule_of(node.op);
    if (!rule) throw std::logic_error(fmt::format("partition has no rule for {}", name_of(node.op)));
    Node own = node;
    for (ValueId& input : own.inputs)
      input = is_activation(input) ? as(input, rule->activations) : as_is(input);
    cut_attributes(own);
    const std::vector<ir::Type> types = types_of(own, node, rule->results);
    if (rule->results == Split::partial) {
      sum_of_terms(std::move(own), node, types.front());
      return;
    }
    for (std::size_t i = 0; i < own.outputs.size(); ++i) {
      own.outputs[i] = add_like(node.outputs[i], types[i], before_.value(node.outputs[i]).name);
      values_[node.outputs[i].index()].split = rule->results;
    }
    after_.add_node(std::move(own));
  }

  /// Emits a node whose results are terms, and the reduce-scatter that adds them up by rows.
  void sum_of_terms(Node own, const Node& node, const ir::Type& type) {
    const ValueId result = node.outputs.front();
    const std::string& name = before_.value(result).name;
    ir::Value term;
    term.name = stem(name) + ".term" + b_.suffix();
    term.type = type;
    own.outputs = {after_.add_value(std::move(term))};
    const ValueId sent = own.outputs.front();
    after_.add_node(std::move(own));
    values_[result.index()] = {
        b_.over_axis(Op::reduce_scatter, over_, node.module, sent, rows_of(type), stem(name)),
        Split::rows,
        {}};
  }

  /// The loss of logits for a part of the vocabulary: what each rank finds in its part is gathered.
  void loss(const Node& node) {
    const ValueId logits = as(node.in(cross_entropy::logits), Split::columns),
                  targets = as_is(node.in(cross_entropy::targets));
    const ir::Attributes axis{{Attr::axis, double(axis_)}};
    const std::string name = node.module + ".parts";
    const ValueId own = b_.emit_one(Op::cross_entropy_part, node.module, {logits, targets}, name, axis);
    ir::Type all = after_.value(own).type;
    all.shape[1] *= ranks_;
    const ValueId parts = b_.over_axis(Op::all_gather, over_, node.module, own, all, name + ".whole");
    std::vector<std::string> names;
    for (const ValueId output : node.outputs) names.push_back(stem(before_.value(output).name));
    const std::vector<ValueId> results =
        b_.emit(Op::cross_entropy, node.module, {logits, targets, parts}, names, axis);
    for (std::size_t i = 0; i < results.size(); ++i)
      values_[node.outputs[i].index()] = {results[i], Split::whole, {}};
  }

  /// Attributes that count heads count a rank's own; neighbours share a head of keys and values where there
  /// are fewer than ranks. The table and the logits of a rank are a part of the vocabulary, as the axis says.
  void cut_attributes(Node& node) const {
    for (const Attr attr : {Attr::heads, Attr::kv_heads})
      if (node.attributes.has(attr))
        node.attributes.set(attr, std::max(1.0, node.attributes.real(attr) / ranks_));
    if (node.op == Op::embedding) node.attributes.set(Attr::axis, axis_);
  }

  std::vector<ir::Type> types_of(const Node& own, const Node& node, Split results) const {
    if (ops::has_shape_rule(own.op)) return ops::infer(after_, own.op, own.inputs, own.attributes);
    std::vector<ir::Type> types;
    for (const ValueId output : node.outputs) {
      const ir::Type& type = before_.value(output).type;
      types.push_back(results == Split::rows ? rows_of(type) : type);
    }
    return types;
  }

  ir::Type rows_of(ir::Type type) const {
    type.shape[1] /= ranks_;
    return type;
  }

  // --- Values

  /// Whether a node of the model makes the value: it is no parameter, token, target or table.
  bool is_activation(ValueId id) const {
    const Node& producer = before_.node(before_.value(id).producer);
    return !ir::is_alias(producer.op);
  }
  ValueId as_is(ValueId id) const { return values_[id.index()].value; }

  /// The value of this graph for one of the graph before, lying as `wanted`.
  ValueId as(ValueId id, Split wanted) {
    Local& local = values_[id.index()];
    if (local.split == wanted) return local.value;
    if (local.split != Split::rows || wanted != Split::whole)
      throw std::logic_error(
          fmt::format("partition: '{}' does not lie as its reader needs it over the axis "
                      "tensor",
                      before_.value(id).name));
    if (!local.gathered.valid())
      local.gathered =
          b_.over_axis(Op::all_gather, over_, before_.node(before_.value(id).producer).module, local.value,
                       before_.value(id).type, stem(before_.value(id).name) + ".whole");
    return local.gathered;
  }

  /// Adds a value with the storage of the one that it stands for.
  ValueId add_like(ValueId id, const ir::Type& type, const std::string& name) {
    ir::Value value;
    value.name = name;
    value.type = type;
    if (const StorageId home = before_.value(id).home; home.valid()) {
      StorageId& own = storages_[home.index()];
      if (!own.valid()) {
        ir::Storage storage = before_.storage(home);
        storage.type = type;
        own = after_.add_storage(std::move(storage));
      }
      value.home = own;
    }
    const ValueId own = after_.add_value(std::move(value));
    values_[id.index()].value = own;
    return own;
  }

  const ir::Graph& before_;
  ir::Graph after_;
  ops::Builder b_;
  int ranks_, axis_;
  ops::Builder::Over over_;
  Regrouped parameters_;
  std::vector<Local> values_;        ///< by value of the graph before
  std::vector<StorageId> storages_;  ///< of inputs and reports, by those of the graph before
};

}  // namespace

std::vector<Unit> partitioned(const std::vector<Unit>& units, int ranks) {
  std::vector<Unit> parts;
  Unit whole;
  whole.copies = ranks;
  for (const Unit& unit : units) {
    Unit own = without_parameters(unit), shared = own;
    shared.path += ".copies";
    for (Parameter p : unit.parameters) {
      p.parts = p.most_parts == 0 ? ranks : static_cast<int>(std::min<std::int64_t>(p.most_parts, ranks));
      p.shape[0] /= p.parts;
      const int copies = ranks / p.parts;
      // What is in "whole" has one type, which is never Float8.
      const bool in_whole = p.parts == 1 && (is_norm(p) || !(unit.float8 || unit.f32_norms));
      if (copies > 1 && !in_whole) shared.copies = copies;
      append(copies == 1 ? own : in_whole ? whole : shared, std::move(p));
    }
    whole.f32_norms = whole.f32_norms || unit.f32_norms;
    for (Unit* const part : {&own, &shared})
      if (!part->parameters.empty()) parts.push_back(std::move(*part));
  }
  put_whole_first(std::move(whole), parts);
  return parts;
}

ir::Graph partition(const ir::Graph& graph) {
  return PartitionPass(graph).run();
}

}  // namespace weft::passes
