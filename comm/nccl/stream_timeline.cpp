#include "comm/nccl/stream_timeline.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "comm/nccl/check_cuda.hpp"

namespace weft::comm {

using detail::as_stream;

namespace {

constexpr std::size_t marks_at_first = 1024;

cudaEvent_t as_event(void* p) {
  return static_cast<cudaEvent_t>(p);
}
cudaEvent_t as_event(const StreamEvent& event) {
  return as_event(event.get());
}

bool query(const StreamEvent& event) {
  const cudaError_t code = cudaEventQuery(as_event(event));
  if (code == cudaErrorNotReady) return false;
  CHECK_CUDA(code);
  return true;
}

double milliseconds(const StreamTimeline::Interval& interval) {
  float ms = 0;
  CHECK_CUDA(cudaEventElapsedTime(&ms, as_event(interval.begin), as_event(interval.end)));
  return ms;
}

/// Records the event as a node of the graph, so that each launch of the graph records it.
void record_in_graph(const StreamEvent& event, void* stream) {
  CHECK_CUDA(cudaEventRecordWithFlags(as_event(event), as_stream(stream), cudaEventRecordExternal));
}

}  // namespace

StreamEvent::StreamEvent(Timing timing) {
  cudaEvent_t event = nullptr;
  CHECK_CUDA(
      cudaEventCreateWithFlags(&event, timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming));
  event_ = event;
}

StreamEvent::~StreamEvent() {
  if (event_ != nullptr) cudaEventDestroy(as_event(event_));
}

StreamEvent::StreamEvent(StreamEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

StreamEvent& StreamEvent::operator=(StreamEvent&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

StreamTimeline::StreamTimeline(void* stream, Timing timing) : stream_(stream), timing_(timing) {
  for (std::size_t i = 0; i < marks_at_first; ++i)
    marks_.push_back({StreamEvent(timing), StreamEvent(timing)});
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

// An interval that has not ended keeps its marks: recorded again, they would stand for a later one, and the
// number of intervals that are done would be too small.
void StreamTimeline::make_room() {
  if (last_ + 1 < oldest_ + marks_.size()) return;
  if (!query(marks(oldest_).end)) {
    marks_.push_back({StreamEvent(timing_), StreamEvent(timing_)});
    return;
  }
  if (timing_ == Timing::on) account();
  marks_.push_back(std::move(marks_.front()));
  marks_.pop_front();
  ++oldest_;
}

void StreamTimeline::begin() {
  if (capturing_) {
    if (timing_ == Timing::off) return;
    captured_.push_back({StreamEvent(timing_), StreamEvent(timing_)});
    record_in_graph(captured_.back().begin, stream_);
    return;
  }
  make_room();
  if (timing_ == Timing::on)
    CHECK_CUDA(cudaEventRecord(as_event(marks(last_ + 1).begin), as_stream(stream_)));
}

Event StreamTimeline::end() {
  ++last_;
  if (capturing_) {
    if (timing_ == Timing::on) record_in_graph(captured_.back().end, stream_);
    captured_ends_.emplace_back(Timing::off);
    CHECK_CUDA(cudaEventRecord(as_event(captured_ends_.back()), as_stream(stream_)));
  } else {
    CHECK_CUDA(cudaEventRecord(as_event(marks(last_).end), as_stream(stream_)));
  }
  return {this, last_};
}

bool StreamTimeline::done(std::uint64_t value) {
  return value < oldest_ || query(marks(value).end);
}

void StreamTimeline::sync(std::uint64_t value) {
  if (value >= oldest_) CHECK_CUDA(cudaEventSynchronize(as_event(marks(value).end)));
}

void* StreamTimeline::native_event(std::uint64_t value) {
  if (value == 0) return nullptr;
  if (capturing_) {
    if (value <= before_capture_ || value - before_capture_ > captured_ends_.size())
      throw std::logic_error("a captured operation waits for one outside its graph, or that has not ended");
    return captured_ends_[value - before_capture_ - 1].get();
  }
  return value < oldest_ ? nullptr : marks(value).end.get();
}

void StreamTimeline::begin_capture() {
  capturing_ = true;
  before_capture_ = last_;
}

StreamTimeline::Intervals StreamTimeline::end_capture() {
  capturing_ = false;
  last_ = before_capture_;
  captured_ends_.clear();
  return std::exchange(captured_, {});
}

void StreamTimeline::count(const Intervals& captured) {
  for (const Interval& interval : captured) busy_ms_ += milliseconds(interval);
}

void StreamTimeline::account() {
  while (accounted_ < last_ && query(marks(accounted_ + 1).end))
    busy_ms_ += milliseconds(marks(++accounted_));
}

double StreamTimeline::busy_seconds() {
  if (timing_ == Timing::on) account();
  return 1e-3 * busy_ms_;
}

}  // namespace weft::comm
