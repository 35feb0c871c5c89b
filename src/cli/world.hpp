// What commands that run on all ranks start with.
#pragma once

#include <memory>

#include "cli/commands.hpp"
#include "comm/world.hpp"
#include "kernels/space.hpp"

namespace weft::cli {

/// All ranks of this run, over the back end of this build: MPI, or NCCL beside it.
std::unique_ptr<comm::World> make_training_world(Context& context);

/// Kokkos outlives everything that holds device memory.
struct KernelsScope {
  KernelsScope() { kernels::initialize(); }
  ~KernelsScope() { kernels::finalize(); }
  KernelsScope(const KernelsScope&) = delete;
  KernelsScope& operator=(const KernelsScope&) = delete;
};

}  // namespace weft::cli
