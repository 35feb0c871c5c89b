// Which checkpoint a run goes on from, by checkpoint.resume and by what its own directory holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "deck/deck.hpp"

namespace weft::train {

/// Where all checkpoints of this deck's run are.
std::string checkpoints_dir(const Deck& deck);

/// Whether `dir` is in the checkpoints directory of this deck's run.
bool is_own_checkpoint(const Deck& deck, const std::string& dir);

/// Collective: the checkpoints that the run may go on from, the first choice first, the same on all ranks;
/// none for a run from the start. "auto": its own. A path: its own that descend from a start from that path,
/// then the path itself, so that a job that is started again goes on instead of beginning again. Throws
/// Error(bad_checkpoint) on all ranks when the run's directory cannot be read, and when it holds checkpoints
/// of which none can be used: such a run must not begin again.
std::vector<std::string> candidates(const Deck& deck, comm::World& world);

/// The path that checkpoint.resume names, whole and normal; empty for "auto" and "never". Checkpoints keep it
/// as their origin.
std::string named_origin(const Deck& deck);

/// Rank 0, before a run's first save: what the run's directory holds though it goes on from none of it moves
/// to checkpoints.old (or .old-2, ...). Returns that path; empty when there was nothing.
std::string set_earlier_aside(const Deck& deck);

}  // namespace weft::train
