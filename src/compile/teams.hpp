// Finds which ranks of a mesh share memory, where hosts have equally many ranks.
#pragma once

#include <string>

#include "base/mesh.hpp"
#include "deck/deck.hpp"
#include "machine/profile.hpp"

namespace weft::compile {

/// The teams of a mesh whose hosts have `per_host` ranks each, as a run on such hosts would find them; none
/// where the deck or this build shares no memory, and none on GPUs. GPUs of one host are taken to read each
/// other's memory, and those of several hosts not to.
Teams teams_of(const Deck& deck, const Mesh& mesh, const machine::Profile& machine, int per_host);

/// Whether the deck wants gradients to be read where they stand, on a machine that can do so.
bool wants_peer_reads(const Deck& deck, const machine::Profile& machine);
/// What a plan with these teams has assumed of such reads; empty where the deck does not want them, or no
/// rank has a peer.
std::string peer_reads_text(const Deck& deck, const Mesh& mesh, const machine::Profile& machine,
                            int per_host);

}  // namespace weft::compile
