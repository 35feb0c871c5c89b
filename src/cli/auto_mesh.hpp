// Chooses the mesh where the deck says "auto", and says what planned ranks take beside their plan.
#pragma once

#include <cstdint>

#include "base/mesh.hpp"
#include "cli/commands.hpp"
#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "exec/matmuls.hpp"
#include "machine/cost_model.hpp"

namespace weft::cli {

/// Estimates what one of `world` ranks holds of the memory that plans are about, by what this process does.
std::int64_t resident_bytes(int world);

/// What a planned rank takes beside state and arena (compile::choose_schedule's baseline), as far as it is
/// known before there is a plan: of `world` ranks, of which `talking` exchange messages on a host. `mesh` is
/// theirs, or one of a single rank while it is not chosen, so that the baseline is that of the mesh with
/// most.
std::int64_t planned_baseline(const Deck& deck, const machine::Profile& profile, int world, int talking,
                              const Mesh& mesh);

/// The deck with a mesh chosen for `world` ranks, and with the settings that belong to it; the deck itself
/// where it has a mesh. Kokkos must be initialised.
Deck with_mesh(const Deck& deck, int world, int per_host, const machine::CostModel& costs,
               exec::Matmuls& matmuls);

/// Collective: the deck of the arguments with a mesh chosen for the ranks of `world`, as if its settings had
/// been given by --set; `deck` itself where it has a mesh. One rank chooses for all.
Deck with_mesh(const Deck& deck, const DeckArguments& arguments, comm::World& world);

}  // namespace weft::cli
