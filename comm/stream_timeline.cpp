#include "comm/stream_timeline.hpp"

#include <algorithm>

#include "comm/check_cuda.hpp"

namespace weft::comm {
namespace {

constexpr std::size_t ring_size = 1024;

cudaEvent_t as_event(void* p) {
  return static_cast<cudaEvent_t>(p);
}
cudaStream_t as_stream(void* p) {
  return static_cast<cudaStream_t>(p);
}

bool query(void* event) {
  const cudaError_t code = cudaEventQuery(as_event(event));
  if (code == cudaErrorNotReady) return false;
  CHECK_CUDA(code);
  return true;
}

}  // namespace

StreamTimeline::StreamTimeline(void* stream) : stream_(stream), ring_(ring_size) {
  for (Marks& m : ring_) {
    cudaEvent_t begin, end;
    CHECK_CUDA(cudaEventCreate(&begin));
    CHECK_CUDA(cudaEventCreate(&end));
    m = {begin, end};
  }
}

StreamTimeline::~StreamTimeline() {
  for (Marks& m : ring_) {
    cudaEventDestroy(as_event(m.begin));
    cudaEventDestroy(as_event(m.end));
  }
}

void StreamTimeline::wait(std::span<const Event> deps) {
  for (const Event& e : deps) {
    if (e.timeline == nullptr || e.timeline == this) continue;
    if (void* native = e.timeline->native_event(e.value)) {
      CHECK_CUDA(cudaStreamWaitEvent(as_stream(stream_), as_event(native), 0));
    } else {
      e.timeline->sync(e.value);
    }
  }
}

void StreamTimeline::begin() {
  const std::uint64_t value = last_ + 1;
  if (value > ring_.size()) account(value - ring_.size());
  CHECK_CUDA(cudaEventRecord(as_event(marks(value).begin), as_stream(stream_)));
}

Event StreamTimeline::end() {
  ++last_;
  CHECK_CUDA(cudaEventRecord(as_event(marks(last_).end), as_stream(stream_)));
  return {this, last_};
}

// A mark that was recorded again stands for the later interval, which ends after the earlier one.
bool StreamTimeline::done(std::uint64_t value) {
  return value == 0 || query(marks(value).end);
}

void StreamTimeline::sync(std::uint64_t value) {
  if (value > 0) CHECK_CUDA(cudaEventSynchronize(as_event(marks(value).end)));
}

void* StreamTimeline::native_event(std::uint64_t value) {
  return value == 0 ? nullptr : marks(value).end;
}

void StreamTimeline::account(std::uint64_t value) {
  while (accounted_ < std::min(value, last_) && query(marks(accounted_ + 1).end)) {
    ++accounted_;
    float ms = 0;
    CHECK_CUDA(cudaEventElapsedTime(&ms, as_event(marks(accounted_).begin), as_event(marks(accounted_).end)));
    busy_ms_ += ms;
  }
  // An interval that is still running when its mark is needed again is left out.
  if (last_ >= ring_.size()) accounted_ = std::max(accounted_, last_ + 1 - ring_.size());
}

double StreamTimeline::busy_seconds() {
  account(last_);
  return 1e-3 * busy_ms_;
}

}  // namespace weft::comm
