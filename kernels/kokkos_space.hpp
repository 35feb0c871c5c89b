// Internal: what kernel sources see of a Space. Headers that others include must not include it.
#pragma once

#include <Kokkos_Core.hpp>

#include "kernels/space.hpp"
#ifdef WEFT_FAKECUDA
#include <fakecuda/kokkos.hpp>
#endif

namespace weft::kernels {

#ifdef WEFT_FAKECUDA
using Execution = fakecuda::Execution;
#else
using Execution = Kokkos::DefaultExecutionSpace;
#endif
inline constexpr bool runs_on_host =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, Execution::memory_space>::accessible;

struct Space::Impl {
  Execution execution;
};

inline const Execution& execution_of(const Space& space) {
  return space.impl().execution;
}

}  // namespace weft::kernels
