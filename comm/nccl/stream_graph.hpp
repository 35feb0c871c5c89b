// A CUDA graph captured from a stream. It includes no CUDA header: streams are void* (cudaStream_t).
#pragma once

namespace weft::comm {

class StreamGraph {
 public:
  /// Begins a capture. From here on, what this thread puts on `stream`, and on streams that wait for events
  /// of it, becomes part of a graph and does not run. Other threads go on as they like.
  static void begin(void* stream);
  /// Ends the capture. By now `stream` must wait for all that was put on the other streams. Throws
  /// Error(comm_failure) when something in it could not be captured.
  explicit StreamGraph(void* stream);
  /// Ends a capture in which something went wrong, and drops what was captured.
  static void discard(void* stream) noexcept;
  ~StreamGraph();
  StreamGraph(const StreamGraph&) = delete;
  StreamGraph& operator=(const StreamGraph&) = delete;

  /// Enqueues a run of the graph on the stream that it was captured from.
  void launch();

 private:
  void* stream_;
  void* executable_ = nullptr;  ///< a cudaGraphExec_t
};

}  // namespace weft::comm
