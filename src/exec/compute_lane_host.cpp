#include "exec/compute_lane.hpp"

namespace weft::exec {

struct ComputeLane::Impl {
  kernels::Space& space;
  comm::HostTimeline timeline;
};

ComputeLane::ComputeLane(kernels::Space& space) : impl_(new Impl{space, {}}) {}
ComputeLane::~ComputeLane() = default;

void ComputeLane::wait(const comm::Event& event) { comm::sync(event); }
void ComputeLane::mark(std::uint64_t value) { impl_->timeline.complete(value); }
comm::Event ComputeLane::event(std::uint64_t value) { return {&impl_->timeline, value}; }
void ComputeLane::finish() { kernels::fence(impl_->space); }

}  // namespace weft::exec
