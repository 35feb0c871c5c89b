// The compute lane on the host: the main thread.
#include <stdexcept>

#include "exec/compute_lane.hpp"

namespace weft::exec {

struct ComputeLane::Impl {
  kernels::Space& space;
  comm::HostTimeline timeline;
  std::uint64_t marks = 0;
};

ComputeLane::ComputeLane(kernels::Space& space) : impl_(new Impl{space, {}}) {}
ComputeLane::~ComputeLane() = default;

void ComputeLane::wait(const comm::Event& event) {
  comm::sync(event);
}

comm::Event ComputeLane::mark() {
  impl_->timeline.complete(++impl_->marks);
  return {&impl_->timeline, impl_->marks};
}

void ComputeLane::finish() {
  kernels::fence(impl_->space);
}

bool ComputeLane::capturable() {
  return false;
}

void ComputeLane::begin_capture() {
  throw std::logic_error("the host's kernels cannot be captured");
}

std::unique_ptr<StepGraph> ComputeLane::end_capture() {
  throw std::logic_error("the host's kernels are not being captured");
}

void ComputeLane::discard_capture() noexcept {}

}  // namespace weft::exec
