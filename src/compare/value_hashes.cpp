#include "compare/value_hashes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/hash.hpp"
#include "kernels/value_hash.hpp"
#include "ops/shapes.hpp"

namespace weft::compare {
namespace {

using ir::Op;

Spread spread_of_state(const ir::Storage& s) {
  switch (s.role) {
    case ir::Role::parameter:
    case ir::Role::master:
    case ir::Role::exp_avg:
    case ir::Role::exp_avg_sq: return Spread::unit;
    case ir::Role::input: return s.type.shape.size() == 2 ? Spread::microbatch : Spread::replicated;
    case ir::Role::constant: return Spread::replicated;
    case ir::Role::gradient:
    case ir::Role::report: return Spread::left_out;
  }
  return Spread::left_out;
}

/// How a sum of gradients lies: it is the sum of one replica's ranks, or of all ranks.
Spread round_sum(const ir::Graph& graph, const ir::Node& node, int last_round) {
  const ir::UnitId unit = graph.value(node.outputs.front()).unit;
  if (unit.valid() && graph.unit(unit).copies > 1) return Spread::left_out;  // terms of neighbours
  if (node.round < last_round) return Spread::unfinished;
  const auto& placement = graph.value(node.outputs.front()).placement;
  const bool of_replica = std::find(placement.begin(), placement.end(), ir::partial) != placement.end();
  return of_replica ? Spread::left_out : Spread::unit;
}

/// Whether the value is this stage's part of the gradient of a unit that another stage has, too.
bool is_part_of_twins(const ir::Graph& graph, const ir::Node& node, const ir::Value& value) {
  return node.phase == ir::Phase::backward && value.unit.valid() && graph.unit(value.unit).twin >= 0;
}

/// Whether the node adds up the gradients that a unit has in two stages.
bool adds_twins(const ir::Graph& graph, const ir::Node& node) {
  return node.op == Op::add && graph.value(node.outputs.front()).unit.valid();
}

Spread spread_of(const ir::Graph& graph, const ir::Node& node, int last_round) {
  const ir::Value& value = graph.value(node.outputs.front());
  if (adds_twins(graph, node)) return Spread::unit;
  switch (node.op) {
    case Op::state: return spread_of_state(graph.storage(value.home));
    case Op::join:
      return Spread::left_out;  // its parts are outputs, too
    // The number of ranks decides how many microbatches the sum of an earlier round covers.
    case Op::accumulate:
      if (!value.home.valid()) return Spread::left_out;  // a rank's own sum, which is reduced later
      [[fallthrough]];
    case Op::reduce_scatter:
      if (node.lane == Lane::tensor || node.lane == Lane::context) return Spread::microbatch;
      return round_sum(graph, node, last_round);
    case Op::all_reduce: return value.unit.valid() ? Spread::unit : Spread::left_out;
    case Op::adamw: return Spread::unit;
    case Op::reduce_totals:
    case Op::clip_scale: return Spread::replicated;
    case Op::recv: return Spread::left_out;  // the stage that sends the value counts it
    default: break;
  }
  // A value that depends on the batch is made once in each microbatch. Aliases and gathers do not depend on
  // it.
  const bool by_batch = ops::batch_rule(node.op, 0) != ops::BatchRule::invariant;
  return by_batch ? Spread::microbatch : Spread::left_out;
}

/// The name that a value has in every round: "layers.0.attn.h#1" gives "layers.0.attn.h", and "h.grad#1~2"
/// gives "h.grad~2". A round's input, "tokens.1", gives "tokens".
std::string name_in_all_rounds(const ir::Value& value, const ir::Node& node, Spread spread) {
  std::string name = value.name;
  if (node.op == Op::state && spread == Spread::microbatch) return name.substr(0, name.rfind('.'));
  if (const auto round = name.find('#'); round != std::string::npos)
    name.erase(round, name.find_first_not_of("0123456789", round + 1) - round);
  return name;
}

/// The row of a value, without the hash. Twins are added up in the update, and one rank has their sum in its
/// backward.
ValueHash without_hash(const ir::Graph& graph, const ir::Node& node, const ir::Value& value, Spread spread) {
  std::string phase(name_of(node.phase)), name = name_in_all_rounds(value, node, spread);
  if (adds_twins(graph, node)) {
    phase = name_of(ir::Phase::backward);
    name = graph.unit(value.unit).path + ".sum";
  }
  return {std::move(phase), ir::module_of(node, value), std::move(name), std::string(name_of(node.op)), {}};
}

/// The axes tensor and context that cut the value, as they stand behind its name; empty when none does.
std::string cut_text(const Mesh& mesh, const ir::Node& node, const ir::Value& value, Spread spread) {
  const bool of_batch = spread == Spread::microbatch && node.op != Op::state;
  std::string text;
  for (const auto& [axis, cuts] :
       {std::pair(context_axis, of_batch), std::pair(tensor_axis, of_batch || value.unit.valid())})
    if (cuts && mesh.size(axis) > 1) text += fmt::format(" {}={}", axis, mesh.size(axis));
  return text;
}

}  // namespace

ValueHashes::ValueHashes(runtime::Session& session, const plan::Plan& plan)
    : session_(session), plan_(plan), made_by_(plan.graph.nodes().size()) {
  for (const ir::Node& node : plan.graph.nodes()) last_round_ = std::max(last_round_, node.round);
  const exec::ProgramOrder order(plan.graph, session.stage_places(), session.pipe_rank());
  for (std::size_t i = 0; i < plan.graph.nodes().size(); ++i) add(ir::NodeId(i), order.place(ir::NodeId(i)));
  if (session.mesh().size(pipe_axis) > 1) share_rows();
  sums_.resize(rows_.size());
}

/// Takes the rows of all stages in the place of its own, and leaves out what another stage counts.
void ValueHashes::share_rows() {
  CommonRows common = common_rows(session_, rows_);
  const auto share = [&](std::vector<Item>& items) {
    std::erase_if(items, [&](const Item& item) { return !common.counted[item.row]; });
    for (Item& item : items) item.row = common.row_of[item.row];
  };
  share(at_start_);
  for (std::vector<Item>& items : made_by_) share(items);
  rows_ = std::move(common.rows);
}

void ValueHashes::add(ir::NodeId id, const exec::ProgramPlace& place) {
  const ir::Node& node = plan_.graph.node(id);
  if (node.outputs.empty()) return;
  const Spread spread = spread_of(plan_.graph, node, last_round_);
  if (spread == Spread::left_out) return;
  if (node.op == Op::state) {
    const ir::StorageId home = plan_.graph.value(node.out(ir::operand::single::to)).home;
    // A storage that nothing uses has no memory. A storage that several nodes read is the same for all of
    // them.
    if (!plan_.storage_used[home.index()] || !states_.insert(home).second) return;
  }
  for (const ir::ValueId output : node.outputs) {
    const ir::Value& value = plan_.graph.value(output);
    if (is_part_of_twins(plan_.graph, node, value)) continue;
    ValueHash row = without_hash(plan_.graph, node, value, spread);
    if (value.unit.valid()) {
      const Unit& unit = plan_.graph.unit(value.unit);
      // Where a unit is on all ranks of a tensor axis, or there is none, no layout cuts its parameters.
      if (unit.copies > 1 || session_.mesh().size(tensor_axis) == 1) {
        add_parameters(id, output, {place, row}, spread);
        continue;
      }
    }
    row.value += cut_text(session_.mesh(), node, value, spread);
    const std::size_t number = number_of({place, row});
    if (spread == Spread::unfinished) continue;
    if (spread == Spread::microbatch && node.op == Op::state) {
      for (const Item& item : rows_of_input(output, node.round)) add(id, number, row, item);
      continue;
    }
    add(id, number, row,
        spread == Spread::unit         ? slice_of_unit(output)
        : spread == Spread::microbatch ? part_of_batch(output, node.round)
                                       : whole(output));
  }
}

void ValueHashes::add(ir::NodeId id, std::size_t row_number, const ValueHash& row, Item item) {
  item.row = row_number;
  item.seed = hash_text(row.value);
  (plan_.graph.node(id).op == Op::state ? at_start_ : made_by_[id.index()]).push_back(item);
}

/// Parameters count one by one, because the deck says which of them share a unit, and the stage those of all
/// layers.
void ValueHashes::add_parameters(ir::NodeId id, ir::ValueId value, const ValueRow& unit_row, Spread spread) {
  const Unit& unit = plan_.graph.unit(plan_.graph.value(value).unit);
  const Item slice = slice_of_unit(value);
  for (const Parameter& p : unit.parameters) {
    ValueRow row = unit_row;
    row.value.value.replace(row.value.value.find(unit.path), unit.path.size(), p.path);
    row.value.module = p.path.substr(0, p.path.rfind('.'));
    const std::size_t number = number_of(row);
    if (spread == Spread::unfinished) continue;
    const std::int64_t begin = std::max(slice.first, p.offset),
                       end = std::min(slice.first + slice.count, p.offset + element_count(p.shape));
    if (begin < end)
      add(id, number, row.value,
          {.value = value,
           .skip = slice.skip + begin - slice.first,
           .count = end - begin,
           .first = first_element(p, session_.tensor_rank(), session_.mesh().size(tensor_axis)) + begin -
                    p.offset});
  }
}

std::size_t ValueHashes::number_of(ValueRow row) {
  const auto [known, is_new] =
      row_by_name_.emplace(std::pair(row.value.phase, row.value.value), rows_.size());
  if (is_new) rows_.push_back(std::move(row));
  return known->second;
}

ValueHashes::Item ValueHashes::slice_of_unit(ir::ValueId id) const {
  const Unit& unit = plan_.graph.unit(plan_.graph.value(id).unit);
  const std::int64_t part = unit.shard_elements(session_.mesh().unit_ranks(unit.copies));
  // The whole unit, or a shard that holds several ranks' parts.
  const std::int64_t held = plan_.graph.local_elements(id);
  Item item{.value = id};
  item.first = std::min(unit.elements, part * session_.own_part(unit));
  item.count = std::min(unit.elements, item.first + part) - item.first;
  item.skip = item.first % held;
  if (unit.copies == 1) item.first += unit.elements * session_.tensor_rank();
  return item;
}

ValueHashes::Item ValueHashes::part_of_batch(ir::ValueId id, int round) const {
  const ir::Value& value = plan_.graph.value(id);
  Item item{.value = id};
  item.count = value.unit.valid() ? plan_.graph.unit(value.unit).elements : plan_.graph.local_elements(id);
  const std::int64_t microbatch = round * session_.batch_ranks() + session_.batch_rank();
  // The ranks of a context axis and of a tensor axis have their parts of it one behind the other.
  const Mesh& mesh = session_.mesh();
  const std::int64_t part = microbatch * mesh.size(context_axis) + session_.context_rank();
  item.first = item.count * (part * mesh.size(tensor_axis) + session_.tensor_rank());
  return item;
}

/// What this rank counts of the tokens, targets or positions of its microbatch. The ranks of a tensor axis
/// have the same, and those of a context axis sections of each sequence (runtime::MicrobatchBuffers::own).
std::vector<ValueHashes::Item> ValueHashes::rows_of_input(ir::ValueId id, int round) const {
  std::vector<Item> rows;
  if (session_.tensor_rank() != 0) return rows;
  const std::int64_t length = plan_.graph.value(id).type.shape[1];  // of a sequence, or of a section
  const std::int64_t ranks = session_.mesh().size(context_axis), rank = session_.context_rank();
  const std::int64_t sections = ranks == 1 ? 1 : 2 * ranks;
  const std::int64_t held = plan_.graph.local_elements(id) / length;
  const std::int64_t sequences = held * ranks / sections;
  const std::int64_t first_sequence = (round * session_.batch_ranks() + session_.batch_rank()) * sequences;
  for (std::int64_t row = 0; row < held; ++row) {
    const std::int64_t section = row < sequences ? rank : sections - 1 - rank;
    const std::int64_t sequence = first_sequence + row % sequences;
    rows.push_back({.value = id,
                    .skip = row * length,
                    .count = length,
                    .first = (sequence * sections + section) * length});
  }
  return rows;
}

ValueHashes::Item ValueHashes::whole(ir::ValueId id) const {
  const bool counts =
      session_.batch_rank() == 0 && session_.context_rank() == 0 && session_.tensor_rank() == 0;
  return {.value = id, .count = counts ? plan_.graph.local_elements(id) : 0};
}

void ValueHashes::start(const exec::Locate& locate) {
  std::fill(sums_.begin(), sums_.end(), 0);
  for (const Item& item : at_start_) hash(item, locate);
}

void ValueHashes::made(ir::NodeId node, const exec::Locate& locate) {
  for (const Item& item : made_by_[node.index()]) hash(item, locate);
}

void ValueHashes::hash(const Item& item, const exec::Locate& locate) {
  if (item.count == 0) return;
  const DType t = plan_.graph.value(item.value).type.dtype;
  const std::byte* data = locate(item.value) + item.skip * static_cast<std::int64_t>(size_of(t));
  sums_[item.row] += kernels::value_hash(session_.space(), item.count, data, t, item.first, item.seed);
}

StepHashes ValueHashes::finish(std::int64_t step) {
  std::vector<std::uint64_t> sums = sums_;
  session_.world().all_reduce_sum(sums);
  StepHashes hashes{step, {}};
  for (std::size_t row = 0; row < sums.size(); ++row) {
    hashes.values.push_back(rows_[row].value);
    hashes.values.back().hash = fmt::format("{:016x}", sums[row]);
  }
  return hashes;
}

}  // namespace weft::compare
