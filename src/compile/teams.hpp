// Finds which ranks of a mesh share memory, where hosts have equally many ranks.
#pragma once

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "machine/profile.hpp"

namespace weft::compile {

/// The teams of a mesh whose hosts have `per_host` ranks each, as a run on such hosts would find them; none
/// where the deck or this build shares no memory, and none on GPUs.
Teams teams_of(const Deck& deck, const Mesh& mesh, const machine::Profile& machine, int per_host);

}  // namespace weft::compile
