// Starts what commands need that run on all ranks.
#pragma once

#include <memory>

#include "cli/commands.hpp"
#include "comm/world.hpp"
#include "kernels/space.hpp"

namespace weft::cli {

/// All ranks of this run, over the back end of this build: MPI, or NCCL beside it.
std::unique_ptr<comm::World> make_training_world(Context& context);

/// Runs Kokkos as long as this object lives; everything that holds device memory must end before.
struct KernelsScope {
  KernelsScope() { kernels::initialize(); }
  ~KernelsScope() { kernels::finalize(); }
  KernelsScope(const KernelsScope&) = delete;
  KernelsScope& operator=(const KernelsScope&) = delete;
};

}  // namespace weft::cli
