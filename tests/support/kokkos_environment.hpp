// Include this file in one or more sources of a test program: Kokkos then runs while its tests run.
#pragma once

#include "kernels/space.hpp"
#include "support/runtime.hpp"

namespace weft::test::detail {

inline const bool kokkos_registered = register_runtime(
    {Runtime::Order::kokkos, [](int*, char***) { kernels::initialize(); }, [] { kernels::finalize(); }});

}  // namespace weft::test::detail
