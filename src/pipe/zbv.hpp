// The schedule zbv: two chunks a rank in the shape of a V, and backwards in two parts (Qi et al., "Zero
// Bubble Pipeline Parallelism", 2023, section 6 and appendix).
#pragma once

#include <vector>

#include "pipe/pipeline_schedule.hpp"

namespace weft::pipe {

/// The actions of all ranks, by rank. A rank holds at most 2 P chunks of microbatches, as much as the first
/// rank of 1f1b. With as many microbatches as ranks or more, and equal times of all kinds of work, it idles
/// about P - 1 times as long as a chunk's forward takes.
std::vector<std::vector<Action>> zbv_actions(const Sizes& sizes);

}  // namespace weft::pipe
