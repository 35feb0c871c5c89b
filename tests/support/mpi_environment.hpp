// Include this file in one or more sources of a test program that runs on MPI ranks (weft_test(... RANKS
// ...)). MPI then runs while its tests run; ranks other than 0 print failures only; a test that fails on one
// rank fails on all.
#pragma once

#include "comm/world.hpp"
#include "support/runtime.hpp"

namespace weft::test {

/// All ranks of the program; without a launcher it is one rank. Valid from the first test to the last.
comm::World& world();

namespace detail {
void start_mpi(int* argc, char*** argv);
void stop_mpi();
inline const bool mpi_registered = register_runtime({Runtime::Order::mpi, start_mpi, stop_mpi});
}  // namespace detail

}  // namespace weft::test
