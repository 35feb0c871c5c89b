// How long a step takes when nobody communicates.
#pragma once

#include "comm/world.hpp"
#include "exec/executor.hpp"

namespace weft::train {

/// Collective: seconds of a step without its collectives, on this rank. It is the median of three runs, or
/// one run of long steps, which vary less, because the first step waits for it. A whole run before them warms
/// caches, libraries and connections, and brings parameters that are gathered in place. All ranks measure at
/// once, because they share memory bandwidth in a real step, too.
///
/// The inputs are those of a step whose update changes nothing (StepBlock::hold), on the state that training
/// begins with: with zeros, products by AMX would take less time.
double compute_only_seconds(comm::World& world, exec::Executor& step);

}  // namespace weft::train
