#include "kernels/region.hpp"

#include <Kokkos_Core.hpp>

namespace weft::kernels {

bool tool_loaded() {
  return Kokkos::Profiling::profileLibraryLoaded();
}

Region::Region(const char* name) : open_(tool_loaded()) {
  if (open_) Kokkos::Profiling::pushRegion(name);
}
Region::~Region() {
  if (open_) Kokkos::Profiling::popRegion();
}

}  // namespace weft::kernels
