// The table that binds operations to kernels and collectives. It is a switch over ir::Op without a default,
// so an operation that is bound to nothing does not compile.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "comm/channel.hpp"
#include "exec/collective_log.hpp"
#include "exec/compute_lane.hpp"
#include "exec/matmuls.hpp"
#include "kernels/space.hpp"
#include "plan/plan.hpp"

namespace weft::exec {

/// What instructions run on.
struct Device {
  kernels::Space& space;
  Matmuls& matmuls;
  ComputeLane& compute;             ///< outlives the channels: their operations wait for its events
  comm::Channel* gather = nullptr;  ///< may be null when the plan has no collectives
  comm::Channel* reduce = nullptr;
  CollectiveLog* log =
      nullptr;  ///< observes both channels; may be null, then a trace shows the compute lane only
};

/// Address of a value on this rank.
using Locate = std::function<std::byte*(ir::ValueId)>;

using Kernel = std::function<void()>;
using Collective = std::function<comm::Event(std::span<const comm::Event> deps)>;

/// The kernel of a compute node with all its arguments bound. `scratch` may be null when the node needs none.
Kernel bind_kernel(const ir::Graph& graph, const ir::Node& node, const Device& device, const Locate& locate,
                   std::byte* scratch);

/// The collective of a gather or reduce node.
Collective bind_collective(const ir::Graph& graph, const ir::Node& node, const Device& device,
                           const Locate& locate, std::byte* scratch);

}  // namespace weft::exec
