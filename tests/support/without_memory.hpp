// The setting that gives every buffer a place of its own.
#pragma once

#include <string>

#include "support/mpi_environment.hpp"

namespace weft::test {

/// Switches the pass `memory` off, beside `others` ("\"order\""). A device's product then has 32 MiB of its
/// own to work in, some GiB a rank, which the fakes of a device take from the host: more than it has for
/// four ranks, where `memory` therefore stays.
inline std::string without_memory(const std::string& others) {
#ifdef WEFT_FAKECUDA
  if (world().size() > 2) return "schedule.disable=[" + others + "]";
#endif
  return "schedule.disable=[" + others + ", \"memory\"]";
}

}  // namespace weft::test
