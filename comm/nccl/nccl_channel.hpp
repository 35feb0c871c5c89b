// A channel that enqueues NCCL on a stream of its own. It includes CUDA and NCCL, so only nccl*.cpp may
// include it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/channel.hpp"
#include "comm/nccl/check_cuda.hpp"
#include "comm/nccl/peer_memory.hpp"
#include "comm/nccl/stream_timeline.hpp"

namespace weft::comm::detail {

/// The communicators of the open channels, each with its channel's name. Any thread may use it.
class OpenCommunicators {
 public:
  void add(ncclComm_t comm, const std::string& channel);
  /// Call it before the communicator ends.
  void remove(ncclComm_t comm);
  /// The error that NCCL has met beside its calls, in one line; empty when there is none.
  std::string failure() const;

 private:
  mutable std::mutex mutex_;
  std::map<ncclComm_t, std::string> channels_;
};

class NcclChannel final : public Channel {
 public:
  /// Takes the communicator and the stream over. Kernels of the channel's own that wait for other ranks have
  /// `most_blocks` blocks at most. `open` outlives the channel.
  NcclChannel(int rank, int size, Lane lane, std::string name, ncclComm_t comm, cudaStream_t stream,
              int most_blocks, OpenCommunicators& open);
  /// Waits for the submitted calls, and for the other ranks: of two channels all ranks end the same one
  /// first. When an exception is on its way it waits for nothing, and leaves the communicator to the
  /// process's end.
  ~NcclChannel() override;

  Event all_gather(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) override;
  Event reduce_scatter(Deps deps, const ReduceScatter& what) override;
  Event all_reduce(Deps deps, void* buffer, std::int64_t count, DType dtype, ReduceOp op) override;
  Event broadcast(Deps deps, void* buffer, std::int64_t bytes, int root) override;
  Event all_to_all(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) override;
  Event send(Deps deps, const void* buffer, std::int64_t bytes, int peer) override;
  Event recv(Deps deps, void* buffer, std::int64_t bytes, int peer) override;
  Event barrier(Deps deps) override;
  void group_begin() override;
  void group_end() override;
  double busy_seconds() const override { return timeline_.busy_seconds(); }
  bool ends_seen() const override { return false; }

  bool register_memory(std::byte* memory, std::size_t bytes) override;
  void forget_memory() override;
  std::string cannot_show_memory() const override;
  std::string show_memory(std::span<const std::span<std::byte>> memory) override;
  void hide_memory() override;
  bool capturable() const override { return true; }
  void begin_capture(const Event& fork) override;
  std::unique_ptr<CapturedCalls> end_capture() override;

 private:
  class Captured;
  /// How a reduce-scatter is made: portions go as messages and are added up, or slices are read where they
  /// stand, or the library adds up as it likes.
  enum class Way : std::uint8_t { messages, peer_reads, library };
  Way way_of(const ReduceScatter& what) const;
  Event begin(CallKind kind, Deps deps, std::size_t bytes, int peer = -1);
  Event end(std::uint64_t sent);
  void exchange_portion(const ReduceScatter& what, std::int64_t first, std::int64_t count);
  void reduce_all(std::span<const ReduceScatter> ops);

  ncclComm_t comm_;
  cudaStream_t stream_;
  OpenCommunicators& open_;
  mutable StreamTimeline timeline_;
  void* token_ = nullptr;             ///< the operand of a barrier
  std::vector<void*> registrations_;  ///< handles of ncclCommRegister
  PeerMemory peers_;
  bool grouped_ = false;
  std::vector<ReduceScatter> deferred_;  ///< reduce-scatters of the open group
  /// What the counters were when the capture began: what is captured does not run.
  std::uint64_t sent_before_ = 0, collectives_before_ = 0;
};

}  // namespace weft::comm::detail
