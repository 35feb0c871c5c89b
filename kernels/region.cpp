#include "kernels/region.hpp"

#include <Kokkos_Core.hpp>

namespace weft::kernels {

Region::Region(const char* name) : open_(Kokkos::Profiling::profileLibraryLoaded()) {
  if (open_) Kokkos::Profiling::pushRegion(name);
}
Region::~Region() {
  if (open_) Kokkos::Profiling::popRegion();
}

}  // namespace weft::kernels
