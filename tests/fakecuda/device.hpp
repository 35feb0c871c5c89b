// A device that is not there: what the fakes of the CUDA runtime, of NCCL, cuBLASLt and cuDNN, and of Kokkos'
// CUDA back end share. docs/fakecuda.md says what it checks, and what it cannot.
//
// A stream is a queue. Nothing of it runs when it is put there; it runs when the host waits for something,
// and the next entry to run is then drawn by lot from those that streams and events allow. So a wait that is
// missing shows as a wrong result, sooner or later.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace fakecuda {

/// Prints the line and ends the process. It is for what a device would answer with a wrong result, a hang or
/// a crash: no code may continue behind it.
[[noreturn]] void fail(const std::string& line);

/// How far a piece of work came when it was its turn.
enum class Turn : std::uint8_t {
  done,
  some,    ///< it went on, and is not done
  waiting  ///< for other ranks
};
/// Work is asked again until it is done. It runs with device memory open.
using Work = std::function<Turn()>;

/// Puts work on a stream, or into the graph that is being captured from it. `begin` is called once for each
/// run, and makes what then has its turns. The work must hold copies of all that the caller may change. Gives
/// CUDA's error for a stream of another device than the thread's. The legacy stream gets CUDA's error while a
/// blocking stream is captured, which that capture does not survive; and it ends the process while another
/// one is captured: CUDA would run the work at once, and leave it out of the graph.
cudaError_t enqueue(cudaStream_t stream, std::string what, std::function<Work()> begin);
/// The same for copies, which CUDA takes for streams of any device.
cudaError_t enqueue_copy(cudaStream_t stream, std::string what, std::function<Work()> begin);
/// Puts work on a stream like enqueue(), where the work is done in one turn.
cudaError_t enqueue_call(cudaStream_t stream, std::string what, std::function<void()> call);

/// Gives CUDA's error for what cannot be captured, and breaks the capture, where the stream has one.
cudaError_t refuse_capture(cudaStream_t stream);
/// Runs queues until the stream is empty.
cudaError_t drain(cudaStream_t stream);
/// Runs queues until all streams of this thread's device are empty.
void wait_for_device();
/// The device of this thread, and that of a stream.
int current_device();
int device_of(cudaStream_t stream);
/// A number below n: the order of things is drawn with it. Its seed is FAKECUDA_SEED.
std::uint64_t draw(std::uint64_t n);

/// Whether all of these bytes belong to one allocation of the device.
bool on_device(const void* memory, std::size_t bytes);
/// Whether all of these bytes belong to one allocation of cudaHostAlloc.
bool is_pinned(const void* memory, std::size_t bytes);
/// Ends the process, with the names of the call and of its operand, unless on_device().
void refuse_host_memory(const char* call, const char* operand, const void* memory, std::size_t bytes);

/// Opens device memory to this process while it lives. Only queues that run have one.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

/// Where this process' device memory lies, so that other ranks can map it.
struct Region {
  int file = -1;
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};
Region region();

/// Kept per kind, and told at the process' end where some are left.
void count_object(const char* kind, int change);
/// How many there are of a kind.
int objects(const char* kind);

/// Whether this call is to fail: FAKECUDA_FAULT is its name, or "NAME:N" for the N-th call in this process
/// and all after it. A test that sets it on one rank sees what the others do.
bool is_to_fail(const std::string& call);
/// Products of more multiplications than this, and graphs that have such products, leave NaNs: for programs
/// that time large ones and look at no value. It is FAKECUDA_LARGEST_PRODUCT.
double largest_product();
/// How long anything waits for other ranks: FAKECUDA_DEADLINE.
std::chrono::seconds patience();

}  // namespace fakecuda
