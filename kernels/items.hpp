// Internal: hands pieces of work of unequal length to threads, one at a time and in their order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kokkos_space.hpp"

namespace weft::kernels {

/// Calls work(i) for each item. Put the longest items first.
template <class Work>
void run_items(Space& space, const char* name, std::int64_t items, const Work& work) {
  using Policy =
      Kokkos::RangePolicy<Execution, Kokkos::Schedule<Kokkos::Dynamic>, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(name, Policy(execution_of(space), 0, items, Kokkos::ChunkSize(1)), work);
}

/// Gives a thread a slot of memory while it works on an item.
using ThreadSlots = Kokkos::Experimental::UniqueToken<Execution>;

/// Slots for few items: where there are more threads than items, each item has a slot of its own.
class ItemSlots {
 public:
  explicit ItemSlots(std::int64_t items) : own_(items <= concurrency()) {}
  /// How many slots there must be.
  static std::int64_t count(std::int64_t items) { return std::min<std::int64_t>(items, concurrency()); }

  std::int64_t acquire(std::int64_t item) const { return own_ ? item : threads_.acquire(); }
  void release(std::int64_t slot) const {
    if (!own_) threads_.release(static_cast<ThreadSlots::size_type>(slot));
  }

 private:
  bool own_;
  ThreadSlots threads_;
};

}  // namespace weft::kernels
