// Tells how much scratch the kernel or collective bound to a node needs; the planning of memory asks for it.
#pragma once

#include "exec/matmuls.hpp"
#include "machine/profile.hpp"
#include "plan/plan.hpp"

namespace weft::exec {

/// A query for plan::lower(). `matmuls` outlives it, and Kokkos must be initialised.
plan::ScratchQuery scratch_query(Matmuls& matmuls);

/// The query of a build for GPUs, on one like this: whatever this build is for, and whatever its processor
/// is.
plan::ScratchQuery gpu_scratch_query(const machine::Compute& gpu);
/// The query for a machine that is planned for here: this build's, or that for GPUs.
plan::ScratchQuery scratch_query(Matmuls& matmuls, const machine::Compute& machine);

/// The scratch of one member of a reduce-scatter or an ordered sum. The members' scratches follow each other.
std::size_t member_scratch_bytes(const ir::Graph& graph, const ir::Node& node, std::size_t member);

}  // namespace weft::exec
