#include "kernels/space.hpp"

#include "base/device.hpp"
#include "kernels/kokkos_space.hpp"
#ifdef WEFT_CUDA
#include <cuda_runtime_api.h>
#endif

namespace weft::kernels {

namespace {

static_assert(device_is_host() == runs_on_host, "Kokkos is built for another device");

Execution make_execution() {
#ifdef WEFT_CUDA
  // A partition of one part is an instance with a stream of its own, which Kokkos destroys with the last
  // copy.
  return Kokkos::Experimental::partition_space(Execution(), 1)[0];
#else
  return Execution();
#endif
}

}  // namespace

void initialize(bool warnings) {
  if (Kokkos::is_initialized() || Kokkos::is_finalized()) return;
  Kokkos::InitializationSettings settings;
  if (!warnings || runs_on_host) settings.set_disable_warnings(true);  // else as KOKKOS_DISABLE_WARNINGS says
#ifdef WEFT_CUDA
  // This takes the device that comm::bind_device made current. Kokkos itself would choose by those of a
  // launcher's variables that it knows.
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess) settings.set_device_id(device);
#endif
  Kokkos::initialize(settings);
#ifdef WEFT_FAKECUDA
  Execution();  // the first one takes this thread's device, too
#endif
}

void finalize() {
  if (Kokkos::is_initialized()) Kokkos::finalize();
}

Space::Space() : impl_(new Impl{make_execution()}) {}
Space::~Space() = default;
Space::Space(Space&&) noexcept = default;
Space& Space::operator=(Space&&) noexcept = default;

void fence(Space& space) {
  execution_of(space).fence("weft::fence");
}

std::string take_launch_errors() {
#ifdef WEFT_CUDA
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess && error != cudaErrorNotReady) return cudaGetErrorString(error);
#endif
  return {};
}

void* native_stream([[maybe_unused]] const Space& space) {
#ifdef WEFT_CUDA
  return execution_of(space).cuda_stream();
#else
  return nullptr;
#endif
}

int concurrency() {
  return Execution().concurrency();
}

}  // namespace weft::kernels
