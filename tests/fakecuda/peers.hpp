// Kernels of the fake device that read the memory of other ranks by NCCL's device communicators.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

struct ncclDevComm;

namespace fakecuda {

/// What a kernel says of itself; the ranks compare it.
struct PeerCall {
  std::size_t offset = 0;  ///< where what is read begins, behind the beginning of the window
  std::size_t bytes = 0;   ///< of what is read on a rank, by all ranks together
  int type = 0;            ///< of its elements
  int blocks = 0;
  bool operator==(const PeerCall&) const = default;
};

/// What a kernel does at a time. Without a function it meets the kernels of the other ranks; else it reads
/// the memory of all ranks, and is given where their parts of the window begin.
using PeerStep = std::function<void(const std::vector<const std::byte*>& ranks)>;

/// Puts such a kernel on a stream. Each run ends the process where the kernels of two ranks differ, in
/// whether they are captured, too; where one reads before another rank's has begun; and where one ends before
/// all have read.
cudaError_t enqueue_peer_kernel(cudaStream_t stream, std::string what, const ncclDevComm& comm,
                                ncclWindow_t window, const PeerCall& call, std::vector<PeerStep> steps);

}  // namespace fakecuda
