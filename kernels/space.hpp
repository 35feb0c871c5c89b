// The execution space that every kernel takes first: where it runs and in what order.
#pragma once

#include <memory>
#include <string>

namespace weft::kernels {

/// Starts and ends Kokkos. The number of host threads comes from OMP_NUM_THREADS. Repeated calls do nothing.
/// On the host Kokkos's warnings do not appear. They ask for OMP_PROC_BIND, which jobs/launch.sh sets, and
/// which a program cannot set for itself, because the OpenMP library has read it by then. On a GPU `warnings`
/// says whether they appear, because there they tell of the device, too.
void initialize(bool warnings = true);
void finalize();

/// One in-order queue of kernels. On CUDA it owns a stream, which the legacy stream neither waits for nor
/// holds up; on the host kernels have run when their call returns. Create it after initialize() and destroy
/// it before finalize(). Throws Error(environment) where the device has no stream to give.
class Space {
 public:
  Space();
  ~Space();
  Space(Space&&) noexcept;
  Space& operator=(Space&&) noexcept;

  struct Impl;  ///< Kokkos' execution instance; see kokkos_space.hpp
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Lets the host wait for everything enqueued on `space`.
void fence(Space& space);
/// Gives the error that launches of this thread have left since the last call, in CUDA's words; empty when
/// there is none, and where the device is the host. Errors inside of a kernel that runs are not seen here: a
/// fence throws those.
std::string take_launch_errors();
/// The cudaStream_t of `space`; nullptr where the device is the host.
void* native_stream(const Space& space);
/// How many host threads (or device lanes) the default execution space runs at once.
int concurrency();

}  // namespace weft::kernels
