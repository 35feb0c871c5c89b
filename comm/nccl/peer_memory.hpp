// The memory of a channel's ranks that each of them reads where it stands: symmetric windows of NCCL and a
// device communicator, by which a kernel meets those of the other ranks. It includes CUDA and NCCL, so only
// the CUDA sources of this folder may include it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/channel.hpp"
#include "comm/nccl/check_cuda.hpp"

struct ncclDevComm;
struct ncclWindow_vidmem;

namespace weft::comm::detail {

class PeerMemory {
 public:
  /// `comm` is that of rank `rank` of `size`, and outlives this. Kernels have `most_blocks` blocks at most,
  /// the same number on all ranks.
  PeerMemory(ncclComm_t comm, int rank, int size, int most_blocks);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// See Channel::cannot_show_memory.
  std::string cannot_show() const;
  /// See Channel::show_memory.
  std::string show(std::span<const std::span<std::byte>> memory);
  /// Ends what show() has made. No kernel may still read it.
  void hide();
  /// Whether all of these bytes are shown.
  bool has(const void* begin, std::size_t bytes) const;
  /// Enqueues a canonical reduce-scatter whose `in` is shown: one kernel, which meets those of all ranks
  /// before it reads and before it ends.
  void reduce_scatter(cudaStream_t stream, const ReduceScatter& what) const;

 private:
  struct Stretch {
    std::span<std::byte> bytes;
    ncclWindow_vidmem* window;
  };
  /// The stretch that has all of these bytes; null when none has.
  const Stretch* find(const void* begin, std::size_t bytes) const;

  ncclComm_t comm_;
  int rank_, size_, most_blocks_;
  std::vector<Stretch> shown_;
  std::unique_ptr<ncclDevComm> device_;  ///< null where it was not made
};

}  // namespace weft::comm::detail
