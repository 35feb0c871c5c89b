// Scratch that the kernel or collective bound to a node needs: what the memory pass asks for.
#pragma once

#include "exec/matmuls.hpp"
#include "plan/plan.hpp"

namespace weft::exec {

/// `matmuls` outlives the query. Kokkos must be initialised.
plan::ScratchQuery scratch_query(Matmuls& matmuls);

/// Of one member of a reduce-scatter or an ordered sum; the members' scratches follow each other.
std::size_t member_scratch_bytes(const ir::Graph& graph, const ir::Node& node, std::size_t member);

}  // namespace weft::exec
