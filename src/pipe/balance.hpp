// Balances the layers of a model over the stages of a pipe.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::pipe {

/// The most layers, embedding and head included, that balance_folded() takes. Its time grows with their
/// fourth power, and its memory with ranks * layers^2.
inline constexpr std::size_t most_folded_layers = 514;

/// What one layer (or the embedding, or the head) takes of a stage.
struct LayerCost {
  double seconds = 0;  ///< forward and backward of a microbatch, in any unit
  double bytes = 0;    ///< memory on a rank, in any unit
};

/// Cuts the layers, which stay in order, into `stages` parts of one layer or more. The slowest stage is as
/// fast as it can be, because all others wait for it. Of the cuts that do so, one is taken whose largest
/// stage takes the least memory, and of these one whose earlier stages are short: they hold more
/// microbatches at a time. Returns how many layers each stage has. Throws Error(bad_input) when there are
/// fewer layers than stages.
std::vector<int> balance(const std::vector<LayerCost>& layers, int stages);

/// Cuts the layers, which stay in order, for `ranks` ranks that have two stages each: rank r has the stages r
/// and 2 ranks - 1 - r. The slowest rank is as fast as it can be, and of the cuts that do so one is taken
/// whose slowest stage is as fast as it can be. Returns how many layers each stage has. Throws
/// Error(bad_input) when there are fewer layers than stages, or more than most_folded_layers.
std::vector<int> balance_folded(const std::vector<LayerCost>& layers, int ranks);

}  // namespace weft::pipe
