// Finds what to compute again so that a step fits its memory, in levels: each keeps less and computes more
// than the one before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/cost_model.hpp"
#include "passes/passes.hpp"

namespace weft::search {

/// The levels. Modules of a Llama come in kinds ("layers.*.attn") whose members have the same operations:
/// those of layers in Float8 and of others are two kinds. For each kind, the sets of operations that are
/// worth it are those on the lower hull of kept bytes against extra seconds. A step goes from one set to the
/// next for one layer, beginning with the first layer, whose activations are held longest. The step that
/// saves the most bytes for each second comes first.
class RecomputeLevels {
 public:
  /// Makes the levels of a training step that has its element types, and is not sharded yet.
  RecomputeLevels(const ir::Graph& graph, const machine::CostModel& costs);

  /// The number of the last level. Level 0 computes nothing again, and level count() all that saves memory.
  int count() const { return static_cast<int>(steps_.size()); }
  /// What is computed again at a level, for the graph that the levels were made of: each rule names something
  /// of it.
  passes::RecomputeOptions at(int level) const;

 private:
  /// A step from one level to the next: one layer of a kind goes from one set of operations to the next.
  struct Step {
    std::size_t kind = 0, set = 0;
    std::size_t place = 0;  ///< of the layer in Kind::layers
    double seconds_per_byte = 0;
  };
  struct Kind {
    std::string head, tail;                 ///< its module paths before and behind the layer's number
    std::vector<int> layers;                ///< the numbers of its layers, rising
    std::vector<std::vector<ir::Op>> sets;  ///< the sets along the hull, from the empty one
  };
  std::vector<Kind> kinds_;
  std::vector<Step> steps_;  ///< in the order of seconds_per_byte
};

}  // namespace weft::search
