// Lets ranks agree: on a mistake, so that it is told in one line, however many ranks make it; on a warning
// likewise; on what holds.
#pragma once

#include <functional>

#include "comm/world.hpp"

namespace weft::comm {

/// Collective: runs `stage` on every rank. It may communicate only by calls that all ranks reach and that
/// none leaves alone (in ckpt::read_manifest and ckpt::load a rank that fails waits until all leave). When it
/// throws anywhere, every rank throws Error with the highest of the exit codes: rank 0 with each distinct
/// message once (and the ranks it came from, unless it came from all), the others with an empty message.
void agree(comm::World& world, const std::function<void()>& stage);

/// Collective: whether something holds on all ranks.
bool on_all_ranks(World& world, bool here);

/// Collective: each warning that ranks keep (log::warn_for_all) is said once, by the first rank that has it.
void tell_kept_warnings(World& world);

}  // namespace weft::comm
