// Hashes of everything that a step makes, equal for every number of ranks, sharding mode and schedule: where
// two runs part shows in the first value that differs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compare/hash_file.hpp"
#include "exec/tap.hpp"
#include "runtime/session.hpp"

namespace weft::compare {

/// A step's values in program order: what it starts from (tokens, parameters, moments, constants, learning
/// rate), the outputs of the kernels, the reduced gradients, the new state. The hash of a value is a sum over
/// its elements, and over all rounds and ranks, so each element counts once and with a key that no layout
/// changes:
///   - what is made once a microbatch: its place in microbatch m = round * ranks + rank;
///   - a unit's state and gradient: its index in the unit, each rank's own slice, no padding;
///   - what all ranks have alike: rank 0's.
/// Values that only some layouts have (gathered copies, slices, sums over some of the microbatches) are left
/// out.
class ValueHashes final : public exec::Tap {
 public:
  /// `plan` and the session outlive this.
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
    std::int64_t skip = 0;   ///< elements before this rank's, where a whole unit is held
    std::int64_t count = 0;  ///< elements of this rank; 0 when another has them
    std::int64_t first = 0;  ///< index of the first one in the whole value
  };
  void add(ir::NodeId node);
  std::size_t row_of(const ir::Node& node, const std::string& module, const std::string& name);
  Item slice_of_unit(ir::ValueId id) const;
  Item part_of_batch(ir::ValueId id, int round) const;
  Item whole(ir::ValueId id) const;
  void hash(const Item& item, const exec::Locate& locate);

  runtime::Session& session_;
  const plan::Plan& plan_;
  int last_round_ = 0;
  std::vector<ValueHash> rows_;  ///< in program order, a value where it is made first; no hashes yet
  std::map<std::pair<ir::Phase, std::string>, std::size_t> row_by_name_;
  std::set<ir::StorageId> states_;
  std::vector<std::uint64_t> sums_;  ///< by row, of this rank and run
  std::vector<Item> at_start_;
  std::vector<std::vector<Item>> made_by_;  ///< by node
};

}  // namespace weft::compare
