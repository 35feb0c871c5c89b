#include "kernels/space.hpp"

#include "base/device.hpp"
#include "kernels/kokkos_space.hpp"
#ifdef WEFT_CUDA
#include <cuda_runtime_api.h>

#include "base/check.hpp"
#endif

namespace weft::kernels {

namespace {

static_assert(device_is_host() == runs_on_host, "Kokkos is built for another device");

#ifdef WEFT_CUDA
void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess)
    throw Error(ExitCode::environment, fmt::format("{} failed ({})", call, cudaGetErrorString(error)));
}

/// Makes a stream that neither waits for the legacy stream nor lets that one wait. The streams that Kokkos
/// makes do both: a library's call on the legacy stream would then end a capture, and stand between kernels.
std::shared_ptr<void> make_stream() {
  // The current device of a new thread is number 0, whatever Kokkos has.
  check(cudaSetDevice(Execution().cuda_device()), "cudaSetDevice");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return {stream, [](void* s) { cudaStreamDestroy(static_cast<cudaStream_t>(s)); }};
}
#endif

Space::Impl* make_impl() {
#ifdef WEFT_CUDA
  std::shared_ptr<void> stream = make_stream();
  Execution execution(static_cast<cudaStream_t>(stream.get()));
  // Kokkos clears the flags of an instance's reductions on the legacy stream, for which the instance's own
  // stream does not wait.
  check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
  return new Space::Impl{std::move(stream), std::move(execution)};
#else
  return new Space::Impl{nullptr, Execution()};
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

Space::Space() : impl_(make_impl()) {}
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
