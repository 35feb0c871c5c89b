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
  bool own = false;    ///< it is in the checkpoints directory of this deck's run
  bool named = false;  ///< it is the path that checkpoint.resume names
};
struct Candidates {
  /// The checkpoints that the run may go on from, the first choice first, by their manifests alone: whether
  /// their files are there is asked when their turn comes. The same on all ranks.
  std::vector<Candidate> all;
  /// On rank 0, a line for each of the run's own checkpoints that cannot be used.
  std::vector<std::string> damaged;
};
/// Collective: finds the candidates; there are none for a run from the start. With "auto" these are its own.
/// With a path they are its own that descend from a start from that path, and then the path itself, so that a
/// job that is started again goes on instead of beginning again. Throws Error(bad_checkpoint) on all ranks
/// when the run's directory cannot be read.
Candidates candidates(const Deck& deck, comm::World& world);

/// Rank 0 calls it where a run would begin, because no checkpoint of its own is left to go on from. `damaged`
/// has a line for each of them that cannot be used. Throws Error(bad_checkpoint) when there is one, because
/// such a run must not begin again beside what somebody may still rescue. Throws Error(bad_input) when the
/// run would start from checkpoint.resume's path, and set_earlier_aside() would move that away.
void check_beginning(const Deck& deck, const std::vector<std::string>& damaged);

/// The path that checkpoint.resume names, absolute and normalised; empty for "auto" and "never". Checkpoints
/// keep it as their origin.
std::string named_origin(const Deck& deck);

/// Rank 0 calls it before a run's first save. It moves what the run's directory holds, though the run goes on
/// from none of it, to checkpoints.old (or .old-2, ...). Returns that path; empty when there was nothing.
/// Throws Error(bad_checkpoint) where "auto" found nothing at the start, and there is something now.
std::string set_earlier_aside(const Deck& deck);

}  // namespace weft::train
