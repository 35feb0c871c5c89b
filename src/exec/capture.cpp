#include "exec/capture.hpp"

#include <algorithm>

namespace weft::exec {

Capture capture_of(const plan::Plan& plan, const CaptureMeans& means, CudaGraph wish) {
  if (wish == CudaGraph::off) return Capture::unwanted;
  if (!means.on_stream) return Capture::host_kernels;
  const bool all_on_streams = std::all_of(
      plan.instructions.begin(), plan.instructions.end(),
      [&](const plan::Instruction& i) { return i.lane == Lane::compute || means.channels[i.lane]; });
  return all_on_streams ? Capture::captured : Capture::host_collectives;
}

std::string_view text_of(Capture capture) {
  switch (capture) {
    case Capture::captured: return "runs are replays of a CUDA graph";
    case Capture::unwanted:
      return "no CUDA graph (schedule.cuda_graph is off, or a Kokkos tool looks at launches)";
    case Capture::host_kernels: return "no CUDA graph (the kernels run on the host)";
    case Capture::host_collectives: return "no CUDA graph (the host makes the collectives)";
  }
  return "?";
}

}  // namespace weft::exec
