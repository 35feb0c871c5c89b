// Starts what commands need that run on all ranks.
#pragma once

#include <exception>
#include <memory>

#include "cli/commands.hpp"
#include "comm/world.hpp"
#include "kernels/space.hpp"

namespace weft::cli {

/// All ranks of this run, over the back end of this build: MPI, or NCCL beside it.
std::unique_ptr<comm::World> make_training_world(Context& context);

/// Tells the error that ends the run before the run is taken down. Taking it down may wait for a save, or for
/// storage, and other ranks, which have nothing to wait for, may end this one meanwhile. Call it in the
/// error's handler: what it does not tell, it throws on.
[[noreturn]] void tell_at_once(const std::exception& e, const comm::World& world);

/// Runs Kokkos as long as this object lives; everything that holds device memory must end before. Kokkos'
/// warnings are about threads and matter only where kernels run.
struct KernelsScope {
  explicit KernelsScope(bool warnings = true) { kernels::initialize(warnings); }
  ~KernelsScope() { kernels::finalize(); }
  KernelsScope(const KernelsScope&) = delete;
  KernelsScope& operator=(const KernelsScope&) = delete;
};

}  // namespace weft::cli
