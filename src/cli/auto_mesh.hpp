// Chooses the mesh where the deck says "auto".
#pragma once

#include <cstdint>

#include "cli/commands.hpp"
#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "exec/matmuls.hpp"
#include "machine/cost_model.hpp"

namespace weft::cli {

/// What a rank takes beside state and arena (compile::choose_schedule's baseline), as far as it is known
/// before there is a mesh.
std::int64_t baseline_of_advice(const Deck& deck, int per_host);

/// The deck of the arguments with a mesh chosen for `world` ranks, as if its settings had been given by
/// --set; the deck itself where it has a mesh. Kokkos must be initialised.
Deck with_mesh(const Deck& deck, const DeckArguments& arguments, int world, int per_host,
               const machine::CostModel& costs, exec::Matmuls& matmuls);

/// Collective: does the same on the ranks of `world`, of which one chooses for all.
Deck with_mesh(const Deck& deck, const DeckArguments& arguments, comm::World& world);

}  // namespace weft::cli
