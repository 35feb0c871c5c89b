// A Kokkos tool inside the test program: it records what Kokkos is asked to do as long as it lives.
#pragma once

#include <string>
#include <vector>

namespace weft::test {

/// Only one may live at a time. Events of all threads are recorded; create and destroy it while no kernel
/// runs.
class KokkosTool {
 public:
  struct Kernel {
    std::string name;
    std::string region;     ///< the innermost open region; empty without one
    std::size_t depth = 0;  ///< how many regions are open
  };
  struct Recorded {
    std::vector<Kernel> kernels;           ///< parallel_for, _reduce and _scan
    std::vector<std::string> allocations;  ///< labels of data that Kokkos allocated
    std::vector<std::string> deep_copies;  ///< labels of their sources
    std::vector<std::string> fences;
  };

  KokkosTool();
  ~KokkosTool();
  KokkosTool(const KokkosTool&) = delete;
  KokkosTool& operator=(const KokkosTool&) = delete;

  const Recorded& recorded() const;
  std::size_t open_regions() const;
};

/// Allocates a little in Kokkos' default memory space and frees it.
void allocate_with_kokkos(const std::string& label);

}  // namespace weft::test
