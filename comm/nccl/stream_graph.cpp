#include "comm/nccl/stream_graph.hpp"

#include "comm/nccl/check_cuda.hpp"

namespace weft::comm {

using detail::as_stream;

void StreamGraph::begin(void* stream) {
  // The strict modes end a capture when a library allocates or loads a kernel while it lasts, as NCCL's
  // threads and a first call of cuBLASLt may. All that Weft itself enqueues goes to streams of the capture.
  CHECK_CUDA(cudaStreamBeginCapture(as_stream(stream), cudaStreamCaptureModeRelaxed));
}

StreamGraph::StreamGraph(void* stream) : stream_(stream) {
  cudaGraph_t graph = nullptr;
  CHECK_CUDA(cudaStreamEndCapture(as_stream(stream), &graph));
  cudaGraphExec_t executable = nullptr;
  // With this flag a node keeps the priority of the stream that it was captured from. Otherwise all nodes
  // would have that of the launching stream.
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(graph);
  CHECK_CUDA(code);
  executable_ = executable;
  // Without this call the first launch would upload the graph.
  CHECK_CUDA(cudaGraphUpload(executable, as_stream(stream)));
}

void StreamGraph::discard(void* stream) noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(as_stream(stream), &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // the error of the capture, which the caller knows
}

StreamGraph::~StreamGraph() {
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}

void StreamGraph::launch() {
  CHECK_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), as_stream(stream_)));
}

}  // namespace weft::comm
