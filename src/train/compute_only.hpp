// Measures how long a step takes when nobody communicates.
#pragma once

#include "comm/world.hpp"
#include "exec/executor.hpp"

namespace weft::train {

/// Collective: measures the step without its collectives, and returns its seconds on the slowest rank. After
/// a whole step that warms caches, libraries and connections, and brings parameters that are gathered in
/// place, it takes the median of three runs. Where steps are long, which vary less, it takes a single run,
/// because the first step waits for it. All ranks measure at once, because they share memory bandwidth in a
/// real step, too.
///
/// The runs have the inputs of a step whose update changes nothing (StepBlock::hold), and the state that
/// training begins with: on zeros, products by AMX would take less time.
double compute_only_seconds(comm::World& world, exec::Executor& step);

}  // namespace weft::train
