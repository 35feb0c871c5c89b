// The pass stage: keeps one rank's stages of a pipe.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/builder.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Op;
using ir::StorageId;
using ir::UnitId;
using ir::ValueId;
using namespace ir::operand;

/// The stage of a node that no unit owns, such as an input: it is in each stage that reads it.
constexpr int every_stage = -1;

class StagePass {
 public:
  StagePass(const ir::Graph& before, const StageOptions& options)
      : before_(before),
        options_(options),
        storages_(before.storages().size()),
        values_(before.values().size()),
        last_reader_(before.values().size(), every_stage) {
    std::vector<Unit> units;
    for (std::size_t u = 0; u < before.units().size(); ++u) {
      units_.emplace_back();
      if (!options.has_unit(u)) continue;
      units_.back() = UnitId(units.size());
      units.push_back(before.units()[u]);
      if (const StageOptions::Twin* twin = options.twin_of(u)) {
        units.back().twin = twin->place;
        units.back().copy = twin->copy;
      }
    }
    after_ = ir::Graph(before.name(), before.mesh(), std::move(units));
    for (std::size_t u = 0; u < before.units().size(); ++u)
      unit_by_path_.emplace(before.units()[u].path, UnitId(u));
  }

  ir::Graph run() {
    for (const Node& node : before_.nodes()) stages_.push_back(stage_of(node));
    for (std::size_t i = 0; i < stages_.size(); ++i)
      for (const ValueId input : before_.nodes()[i].inputs) {
        int& last = last_reader_[input.index()];
        last = std::max(last, stages_[i]);
      }
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Node& node = before_.nodes()[i];
      if (node.op == Op::reduce_totals)
        totals(node, stages_[i]);
      else if (is_own(stages_[i]))
        emit(node, stages_[i]);
    }
    return std::move(after_);
  }

 private:
  // --- Which stage a node belongs to

  bool is_own(int stage) const { return options_.is_own(stage); }
  int chunk_of(int stage) const { return options_.places().chunk(stage); }
  int place_of(int stage) const { return options_.places().place(stage); }
  /// Whether what comes into the stage comes from the place behind, and what goes out goes to the one before.
  bool goes_back(int stage) const { return options_.places().goes_back(chunk_of(stage)); }

  int stage_of_unit(UnitId unit) const { return options_.stage_of_unit(unit.index()); }

  int stage_of(const Node& node) const {
    if (node.op == Op::state) {
      const UnitId unit = before_.value(node.out(single::to)).unit;
      return unit.valid() ? stage_of_unit(unit) : every_stage;
    }
    if (node.op == Op::view) return stage_of_unit(unit_of(node));
    if (const auto unit = unit_by_path_.find(node.module); unit != unit_by_path_.end())
      return stage_of_unit(unit->second);
    int stage = every_stage;  // what belongs to no unit, as the loss, follows what it reads
    for (const ValueId input : node.inputs) stage = std::max(stage, stage_of_producer(input));
    return stage;
  }
  UnitId unit_of(const Node& view) const { return before_.value(view.in(single::from)).unit; }
  int stage_of_producer(ValueId id) const { return stages_[before_.value(id).producer.index()]; }

  // --- What a stage holds

  void emit(const Node& node, int stage) {
    Node own = node;
    own.chunk = chunk_of(stage);
    for (ValueId& input : own.inputs) input = in_stage(input, node, stage);
    for (ValueId& output : own.outputs) output = copy(output);
    after_.add_node(std::move(own));
    for (const ValueId output : node.outputs)
      if (last_reader_[output.index()] > stage && !is_own(stage + 1) && node.op != Op::view)
        send(node, output, stage);
  }

  /// The value of this graph that a node of `stage` reads for a value of the whole one.
  ValueId in_stage(ValueId id, const Node& reader, int stage) {
    const int made_in = stage_of_producer(id);
    const ValueId own = values_[id.index()];
    const Node& producer = before_.node(before_.value(id).producer);
    const bool follows_itself = made_in + 1 == stage && is_own(made_in);
    const bool here = made_in == stage || follows_itself || made_in == every_stage || producer.op == Op::view;
    if (own.valid() && (here || received_in_[id] == stage)) return own;
    const bool in_two_stages = producer.op == Op::view && units_[unit_of(producer).index()].valid();
    if (made_in == every_stage || in_two_stages) {
      emit_alias(producer, stage);
    } else if (made_in + 1 == stage && producer.op != Op::view) {
      receive(id, producer, stage);
    } else {
      throw std::logic_error(fmt::format("stage {} of the pipe reads '{}' of stage {} in {}", stage,
                                         before_.value(id).name, made_in, reader.module));
    }
    return values_[id.index()];
  }

  /// Emits a state, or a view with its state, where it is read first.
  void emit_alias(const Node& node, int stage) {
    Node own = node;
    own.chunk = chunk_of(stage);
    for (ValueId& input : own.inputs) {
      const ValueId known = values_[input.index()];
      if (!known.valid()) emit_alias(before_.node(before_.value(input).producer), stage);
      input = values_[input.index()];
    }
    for (ValueId& output : own.outputs) output = copy(output);
    after_.add_node(std::move(own));
  }

  void receive(ValueId id, const Node& producer, int stage) {
    ops::Builder b(after_);
    b.at(producer.phase, producer.round, chunk_of(stage));
    const ir::Value& value = before_.value(id);
    values_[id.index()] =
        b.recv(producer.module, value.type, value.name.substr(0, value.name.find('#')), place_of(stage - 1),
               goes_back(stage) ? Lane::from_next : Lane::from_previous);
    received_in_[id] = stage;
  }

  void send(const Node& producer, ValueId id, int stage) {
    ops::Builder b(after_);
    b.at(producer.phase, producer.round, chunk_of(stage));
    b.send(producer.module, values_[id.index()], place_of(stage + 1),
           goes_back(stage) ? Lane::to_previous : Lane::to_next);
  }

  /// The sum of the losses is known to all stages: those that have none add zeros.
  void totals(const Node& node, int stage) {
    ops::Builder b(after_);
    b.at(node.phase, node.round);
    const ir::Value& loss = before_.value(node.in(reduce_totals::rounds));
    Node own = node;
    own.in(reduce_totals::rounds) = is_own(stage) ? values_[node.in(reduce_totals::rounds).index()]
                                                  : b.zeros(node.module, loss.type, loss.name);
    own.out(reduce_totals::totals) = copy(node.out(reduce_totals::totals));
    after_.add_node(std::move(own));
  }

  ValueId copy(ValueId id) {
    ir::Value value = before_.value(id);
    if (value.unit.valid()) value.unit = units_[value.unit.index()];
    if (value.home.valid()) value.home = storage(value.home);
    return values_[id.index()] = after_.add_value(std::move(value));
  }

  StorageId storage(StorageId id) {
    StorageId& own = storages_[id.index()];
    if (own.valid()) return own;
    ir::Storage storage = before_.storage(id);
    if (storage.unit.valid()) storage.unit = units_[storage.unit.index()];
    own = after_.add_storage(std::move(storage));
    return own;
  }

  const ir::Graph& before_;
  ir::Graph after_;
  const StageOptions& options_;
  std::map<std::string, UnitId> unit_by_path_;
  std::vector<UnitId> units_;           ///< the stage's own unit for each; invalid: another stage has it
  std::vector<StorageId> storages_;     ///< likewise, once something reads or writes it
  std::vector<ValueId> values_;         ///< likewise
  std::map<ValueId, int> received_in_;  ///< the stage that a value was received in
  std::vector<int> stages_;             ///< by node
  std::vector<int> last_reader_;        ///< by value: the last stage that reads it
};

}  // namespace

int StageOptions::stage_of_unit(std::size_t unit) const {
  const auto next = std::upper_bound(first_units.begin(), first_units.end(), unit);
  return static_cast<int>(next - first_units.begin()) - 1;
}

const StageOptions::Twin* StageOptions::twin_of(std::size_t unit) const {
  const auto twin = std::find_if(twins.begin(), twins.end(), [&](const Twin& t) { return t.unit == unit; });
  return twin == twins.end() ? nullptr : &*twin;
}

ir::Graph stage(const ir::Graph& graph, const StageOptions& options) {
  return StagePass(graph, options).run();
}

}  // namespace weft::passes
