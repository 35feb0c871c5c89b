// Hooks of the tests' main: what a test program starts before its first test and ends after its last one.
#pragma once

namespace weft::test {

/// One thing that main starts. Programs that include mpi_environment.hpp or kokkos_environment.hpp register
/// theirs.
struct Runtime {
  enum class Order { mpi, kokkos };
  Order order = Order::mpi;  ///< started in this order, stopped in the reverse one
  void (*start)(int* argc, char*** argv) = nullptr;
  void (*stop)() = nullptr;
};

/// Adds a runtime. Call it before main (from a static initialiser).
bool register_runtime(const Runtime& runtime);
/// Whether the program registered a runtime of this order. Call it from main.
bool has_runtime(Runtime::Order order);

/// What programs of several ranks add to main. A program without them is rank 0 of 1.
struct Ranks {
  int rank = 0;
  int size = 1;
  /// Collective: whether any rank says `failed`. main calls it at the end of each test, and the host waits.
  bool (*any_failed)(bool failed) = nullptr;
};

/// Sets the ranks; the start function of the MPI runtime calls it.
void set_ranks(const Ranks& ranks);

}  // namespace weft::test
