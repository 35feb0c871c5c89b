// The compute lane on CUDA: a stream, whose work can be captured into a graph.
#include "comm/nccl/stream_graph.hpp"
#include "comm/nccl/stream_timeline.hpp"
#include "exec/compute_lane.hpp"

namespace weft::exec {
namespace {

class CudaGraph final : public StepGraph {
 public:
  explicit CudaGraph(void* stream) : graph_(stream) {}
  void launch() override { graph_.launch(); }

 private:
  comm::StreamGraph graph_;
};

}  // namespace

struct ComputeLane::Impl {
  kernels::Space& space;
  comm::StreamTimeline timeline;
};

ComputeLane::ComputeLane(kernels::Space& space)
    : impl_(new Impl{space, comm::StreamTimeline(kernels::native_stream(space), comm::Timing::off)}) {}
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

bool ComputeLane::capturable() {
  return true;
}

void ComputeLane::begin_capture() {
  comm::StreamGraph::begin(impl_->timeline.stream());
  impl_->timeline.begin_capture();
}

std::unique_ptr<StepGraph> ComputeLane::end_capture() {
  impl_->timeline.end_capture();
  return std::make_unique<CudaGraph>(impl_->timeline.stream());
}

void ComputeLane::discard_capture() noexcept {
  impl_->timeline.end_capture();
  comm::StreamGraph::discard(impl_->timeline.stream());
}

}  // namespace weft::exec
