// Hashes everything that a step makes. The hashes are equal for every number of ranks, sharding mode and
// schedule, so the first value that differs shows where two runs part.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/hash_file.hpp"
#include "compare/value_rows.hpp"
#include "exec/tap.hpp"
#include "runtime/session.hpp"

namespace weft::compare {

/// How a value lies over rounds and ranks, whatever the layout.
enum class Spread : std::uint8_t {
  left_out,    ///< only some layouts have the value, or it is a part of another one
  microbatch,  ///< made once in each microbatch
  unit,        ///< one flat unit, whole or cut
  unfinished,  ///< a unit's sum over some of the rounds: it only keeps the sum's place in program order
  replicated   ///< alike on all ranks
};

/// Hashes a step's values in program order: what it starts from (tokens, parameters, moments, constants,
/// learning rate), the outputs of the kernels, the reduced gradients, and the new state. The hash of a value
/// is a sum over its elements, and over all rounds and ranks. Each element counts once, with a key that no
/// layout changes:
/// - What is made once in each microbatch has its place in microbatch m = round * ranks + rank as key.
/// - Tokens, targets and positions have their place in the sequences, whatever ranks share them.
/// - A parameter's state and gradient have their index in the parameter, and in the unit where a tensor axis
///   cuts it. Each rank counts its own slice, no padding.
/// - Of what all ranks have alike, the first one counts its copy; or the first of those stages of a pipe that
///   have it.
/// - The gradient of a unit that two stages have is their sum.
/// What the ranks of an axis tensor or context make or hold in parts has no such key: which part, and with
/// which bits, depends on the axis. Its name says the axis and its size ("layers.0.attn.h tensor=2"), so it
/// is compared only with what is cut alike.
/// Values that only some layouts have (gathered copies, slices, received copies, sums over some of the
/// microbatches) are left out.
class ValueHashes final : public exec::Tap {
 public:
  /// Collective. Hashes the values of one plan; `plan` and the session outlive this object.
  ValueHashes(runtime::Session& session, const plan::Plan& plan);

  void start(const exec::Locate& locate) override;
  bool wants(ir::NodeId node) const override { return !made_by_[node.index()].empty(); }
  void made(ir::NodeId node, const exec::Locate& locate) override;
  /// Collective: the hashes of the run that has just ended.
  StepHashes finish(std::int64_t step);

 private:
  struct Item {
    ir::ValueId value;
    std::size_t row = 0;
    std::uint64_t seed = 0;
    std::int64_t skip = 0;   ///< elements before this rank's own, where a whole unit is held
    std::int64_t count = 0;  ///< how many elements this rank counts; 0 when another rank does
    std::int64_t first = 0;  ///< index of the first of them in the whole value
  };
  void add(ir::NodeId node, const exec::ProgramPlace& place);
  void add(ir::NodeId node, std::size_t row_number, const ValueHash& row, Item item);
  /// Adds the parameters of a unit, a row each.
  void add_parameters(ir::NodeId node, ir::ValueId value, const ValueRow& unit_row, Spread spread);
  /// The number of a row: that of an earlier round, where the value has one, or else of this new one.
  std::size_t number_of(ValueRow row);
  void share_rows();
  Item slice_of_unit(ir::ValueId id) const;
  Item part_of_batch(ir::ValueId id, int round) const;
  std::vector<Item> rows_of_input(ir::ValueId id, int round) const;
  Item whole(ir::ValueId id) const;
  void hash(const Item& item, const exec::Locate& locate);

  runtime::Session& session_;
  const plan::Plan& plan_;
  int last_round_ = 0;
  std::vector<ValueRow> rows_;  ///< in program order, each value where it is made first
  std::map<std::pair<std::string, std::string>, std::size_t> row_by_name_;  ///< by phase and name
  std::set<ir::StorageId> states_;
  std::vector<std::uint64_t> sums_;  ///< by row: the sum of this rank in this run
  std::vector<Item> at_start_;
  std::vector<std::vector<Item>> made_by_;  ///< by node: what it makes
};

}  // namespace weft::compare
