#include <cuda_runtime.h>
#include <fmt/core.h>

#include <array>
#include <stdexcept>

#include "exec/compute_lane.hpp"

namespace weft::exec {
namespace {

void check(cudaError_t status, const char* expression) {
  if (status != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", expression, cudaGetErrorString(status)));
}
#define CHECK_CUDA(expression) check(expression, #expression)

/// Events of a stream in a ring. A slot is used again after `slots` marks, when its old event is long past.
class StreamTimeline : public comm::Timeline {
 public:
  StreamTimeline() {
    for (Slot& slot : ring_) CHECK_CUDA(cudaEventCreateWithFlags(&slot.event, cudaEventDisableTiming));
  }
  ~StreamTimeline() override {
    for (Slot& slot : ring_) cudaEventDestroy(slot.event);
  }
  void mark(std::uint64_t value, cudaStream_t stream) {
    newest_ = (newest_ + 1) % ring_.size();
    ring_[newest_].value = value;
    CHECK_CUDA(cudaEventRecord(ring_[newest_].event, stream));
  }
  bool done(std::uint64_t value) override { return cudaEventQuery(find(value)) == cudaSuccess; }
  void sync(std::uint64_t value) override { CHECK_CUDA(cudaEventSynchronize(find(value))); }
  void* native_event(std::uint64_t value) override { return find(value); }

 private:
  struct Slot {
    cudaEvent_t event = nullptr;
    std::uint64_t value = 0;
  };
  /// The oldest event that covers `value`: a stream completes in order.
  cudaEvent_t find(std::uint64_t value) const {
    std::size_t i = newest_;
    for (std::size_t back = 1; back < ring_.size(); ++back) {
      const std::size_t before = (newest_ + ring_.size() - back) % ring_.size();
      if (ring_[before].value < value) break;
      i = before;
    }
    return ring_[i].event;
  }

  std::array<Slot, 4096> ring_{};
  std::size_t newest_ = 0;
};

}  // namespace

struct ComputeLane::Impl {
  kernels::Space& space;
  cudaStream_t stream;
  StreamTimeline timeline;
};

ComputeLane::ComputeLane(kernels::Space& space)
    : impl_(new Impl{space, static_cast<cudaStream_t>(kernels::native_stream(space)), {}}) {}
ComputeLane::~ComputeLane() = default;

void ComputeLane::wait(const comm::Event& event) {
  if (event.timeline == nullptr) return;
  if (void* native = event.timeline->native_event(event.value)) {
    CHECK_CUDA(cudaStreamWaitEvent(impl_->stream, static_cast<cudaEvent_t>(native), 0));
  } else {
    comm::sync(event);  // a host back end: only in tests and with one rank
  }
}
void ComputeLane::mark(std::uint64_t value) { impl_->timeline.mark(value, impl_->stream); }
comm::Event ComputeLane::event(std::uint64_t value) { return {&impl_->timeline, value}; }
void ComputeLane::finish() { kernels::fence(impl_->space); }

}  // namespace weft::exec
