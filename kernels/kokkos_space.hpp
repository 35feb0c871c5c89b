// Internal: what kernel sources see of a Space. Headers that others include must not include it.
#pragma once

#include <Kokkos_Core.hpp>

#include "kernels/space.hpp"

namespace weft::kernels {

using Execution = Kokkos::DefaultExecutionSpace;
inline constexpr bool runs_on_host =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, Execution::memory_space>::accessible;

struct Space::Impl {
  Execution execution;
};

inline const Execution& execution_of(const Space& space) {
  return space.impl().execution;
}

}  // namespace weft::kernels
