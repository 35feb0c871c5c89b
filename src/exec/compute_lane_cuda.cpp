#include "comm/stream_timeline.hpp"
#include "exec/compute_lane.hpp"

namespace weft::exec {

struct ComputeLane::Impl {
  kernels::Space& space;
  comm::StreamTimeline timeline;
};

ComputeLane::ComputeLane(kernels::Space& space)
    : impl_(new Impl{space, comm::StreamTimeline(kernels::native_stream(space))}) {}
ComputeLane::~ComputeLane() = default;

void ComputeLane::wait(const comm::Event& event) {
  impl_->timeline.wait({&event, 1});
}

comm::Event ComputeLane::mark() {
  impl_->timeline.begin();
  return impl_->timeline.end();
}

void ComputeLane::finish() {
  kernels::fence(impl_->space);
}

}  // namespace weft::exec
