// The table that binds operations to kernels and collectives. It is a switch over ir::Op without a default,
// so that an operation which is bound to nothing does not compile.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/per_lane.hpp"
#include "comm/channel.hpp"
#include "exec/capture.hpp"
#include "exec/collective_log.hpp"
#include "exec/compute_lane.hpp"
#include "exec/launch_check.hpp"
#include "exec/matmuls.hpp"
#include "kernels/space.hpp"
#include "plan/plan.hpp"

namespace weft::exec {

/// What instructions run on: the space, the lanes, the channels, and what records them.
struct Device {
  kernels::Space& space;
  Matmuls& matmuls;
  ComputeLane& compute;  ///< outlives the channels: their calls wait for its events
  /// The channel of each lane. The compute lane has none, and another lane may have none when no plan has
  /// collectives on it.
  PerLane<comm::Channel*> channels{};
  /// By round, the rows that tokens name, for collectives that send only these; null when the plan has none.
  const std::vector<comm::UsedRows>* rows = nullptr;
  /// Records the channels' calls; when it is null, a trace shows the compute lane only.
  CollectiveLog* log = nullptr;
  int data_rank = 0;     ///< this rank's place on the data axis: which slice of a unit it has
  int tensor_rank = 0;   ///< this rank's place on the tensor axis: which part of the vocabulary it has
  int context_rank = 0;  ///< this rank's place on the context axis: which part of each sequence it has
  CudaGraph capture = CudaGraph::off;  ///< all ranks must wish the same
  /// Records whole runs, where the ends of calls are not seen (NCCL); it may be null.
  comm::ChannelRecord* runs = nullptr;
  LaunchErrors launch_errors = kernels::take_launch_errors;
};

/// Finds the address of a value on this rank.
using Locate = std::function<std::byte*(ir::ValueId)>;

using Kernel = std::function<void()>;
using Collective = std::function<comm::Event(std::span<const comm::Event> deps)>;

/// The kernel of a compute node with all its arguments bound. `scratch` may be null when the node needs none.
Kernel bind_kernel(const ir::Graph& graph, const ir::Node& node, const Device& device, const Locate& locate,
                   std::byte* scratch);

/// The collective of a node of a communication lane. Throws std::logic_error when that lane's channel does
/// not have the ranks of the node's axis.
Collective bind_collective(const ir::Graph& graph, const ir::Node& node, const Device& device,
                           const Locate& locate, std::byte* scratch);

}  // namespace weft::exec
