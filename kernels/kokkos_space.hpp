// Internal: what kernel sources see of a Space. Headers that others include must not include it.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <memory>

#include "kernels/space.hpp"
#ifdef WEFT_FAKECUDA
#include <fakecuda/kokkos.hpp>
#endif

namespace weft::kernels {

#ifdef WEFT_FAKECUDA
using Execution = fakecuda::Execution;
using PinnedMemory = fakecuda::PinnedMemory;
#else
using Execution = Kokkos::DefaultExecutionSpace;
using PinnedMemory = Kokkos::SharedHostPinnedSpace;
#endif
inline constexpr bool runs_on_host =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, Execution::memory_space>::accessible;

/// Whether a block of so many threads, with so much of Kokkos' team scratch, starts on every device that Weft
/// is built for, whatever registers the compiler gives a thread. NVIDIA's GPUs have 255 registers a thread at
/// most and 65536 a block, and 48 KiB of shared memory a block without a kernel's asking for more, which
/// Kokkos does not do (CUDA C++ programming guide, technical specifications of the compute capabilities);
/// AMD's have more of each. Kokkos keeps up to 1 KiB for itself.
constexpr bool block_starts(int threads, std::size_t scratch_bytes) {
  constexpr int registers_a_thread = 255, registers_a_block = 65536;
  constexpr std::size_t shared_bytes = std::size_t{48} << 10, for_kokkos = std::size_t{1} << 10;
  return threads * registers_a_thread <= registers_a_block && scratch_bytes + for_kokkos <= shared_bytes;
}

struct Space::Impl {
  std::shared_ptr<void>
      stream;  ///< that of `execution`, which it outlives; null where the device is the host
  Execution execution;
};

inline const Execution& execution_of(const Space& space) {
  return space.impl().execution;
}

}  // namespace weft::kernels
