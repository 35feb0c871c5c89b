// A tap looks at the values of a plan while it runs, for debugging.
#pragma once

#include "exec/bind.hpp"
#include "ir/graph.hpp"

namespace weft::exec {

/// The executor calls it on the host's thread, in program order, and does not go on before it returns. What
/// the tap enqueues on the device's space runs after the node and before anything that could overwrite the
/// node's outputs, so values that share a buffer are seen one by one.
class Tap {
 public:
  virtual ~Tap() = default;
  /// Called before the first instruction: the storages hold what the run starts from.
  virtual void start(const Locate& locate) = 0;
  /// Whether the tap wants to see what this node makes. The host waits for a collective that it wants.
  virtual bool wants(ir::NodeId node) const = 0;
  /// Called when the node's outputs are made.
  virtual void made(ir::NodeId node, const Locate& locate) = 0;
};

}  // namespace weft::exec
