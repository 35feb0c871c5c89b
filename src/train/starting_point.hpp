// Finds the checkpoint that a run goes on from, by checkpoint.resume and by what its own directory holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "deck/deck.hpp"

namespace weft::train {

/// The directory of all checkpoints of this deck's run.
std::string checkpoints_dir(const Deck& deck);

struct Candidate {
  std::string path;
  bool own = false;  ///< it is in the checkpoints directory of this deck's run
};
/// Collective: the checkpoints that the run may go on from, the first choice first, the same on all ranks;
/// none for a run from the start. With "auto" these are its own. With a path they are its own that descend
/// from a start from that path, and then the path itself, so that a job that is started again goes on instead
/// of beginning again. Throws Error(bad_checkpoint) on all ranks when the run's directory cannot be read, and
/// when it holds checkpoints of which none can be used: such a run must not begin again.
std::vector<Candidate> candidates(const Deck& deck, comm::World& world);

/// Throws Error(bad_checkpoint) for a start that could only begin again, beside checkpoints of its own that
/// somebody may still rescue. `damaged` has one line for each of these, and at least one.
[[noreturn]] void fail_unusable(const Deck& deck, const std::vector<std::string>& damaged);

/// The path that checkpoint.resume names, absolute and normalised; empty for "auto" and "never". Checkpoints
/// keep it as their origin.
std::string named_origin(const Deck& deck);

/// Rank 0 calls it before a run's first save. It moves what the run's directory holds, though the run goes on
/// from none of it, to checkpoints.old (or .old-2, ...). Returns that path; empty when there was nothing.
/// Throws Error(bad_checkpoint) where "auto" found nothing at the start, and there is something now.
std::string set_earlier_aside(const Deck& deck);

}  // namespace weft::train
