// Internal: pieces of work of unequal length, handed to threads one at a time in their order.
#pragma once

#include "kernels/kokkos_space.hpp"

namespace weft::kernels {

/// Calls work(i) for each item; put the longest first.
template <class Work>
void run_items(Space& space, const char* name, std::int64_t items, const Work& work) {
  using Policy =
      Kokkos::RangePolicy<Execution, Kokkos::Schedule<Kokkos::Dynamic>, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(name, Policy(execution_of(space), 0, items, Kokkos::ChunkSize(1)), work);
}

/// Memory of a thread while it works on an item.
using ThreadSlots = Kokkos::Experimental::UniqueToken<Execution>;

}  // namespace weft::kernels
