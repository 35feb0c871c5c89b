// Internal: pieces of work of unequal length, handed to threads one at a time in their order.
#pragma once

#include <algorithm>
#include <cstdint>

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

/// The same of few items: each has a part of its own where there are more threads than items.
class ItemSlots {
 public:
  explicit ItemSlots(std::int64_t items) : own_(items <= concurrency()) {}
  /// Parts that there are to be.
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
