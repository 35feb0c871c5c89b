// What to compute again so that a step fits its memory: levels, each with less kept and more computed than
// the last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/cost_model.hpp"
#include "passes/passes.hpp"

namespace weft::search {

/// The modules of a Llama come in kinds ("layers.*.attn") whose members are alike. Of each kind, the sets of
/// operations that are worth it are those on the lower hull of kept bytes against extra seconds; from one to
/// the next, layer by layer from the first (whose activations are held longest), the exchange with the most
/// bytes a second comes first.
class RecomputeLevels {
 public:
  /// From a training step with its element types, before it is sharded.
  RecomputeLevels(const ir::Graph& graph, const machine::CostModel& costs);

  /// Levels 0 (nothing) to count() (all that saves memory).
  int count() const { return static_cast<int>(steps_.size()); }
  passes::RecomputeOptions at(int level) const;

 private:
  /// One layer of a kind goes from one set of operations to the next.
  struct Step {
    std::size_t kind = 0, set = 0;
    int layer = 0;
    double seconds_per_byte = 0;
  };
  struct Kind {
    std::string head, tail;                 ///< of its module paths, around the layer's number
    std::vector<std::vector<ir::Op>> sets;  ///< along the hull, from nothing
  };
  std::vector<Kind> kinds_;
  std::vector<Step> steps_;  ///< in order of seconds_per_byte
};

}  // namespace weft::search
