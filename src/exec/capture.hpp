// Decides whether runs of a plan are replays of a CUDA graph.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/choices.hpp"
#include "base/per_lane.hpp"
#include "plan/plan.hpp"

namespace weft::exec {

/// Whether runs are captured, and if not, why not. With `captured`, the second run of the plan without trace
/// and tap is captured, and this run and those after it are launches of that graph. With the other values
/// every run walks the plan's instructions.
enum class Capture : std::uint8_t { captured, unwanted, host_kernels, host_collectives };

/// The properties of what a plan runs on.
struct CaptureMeans {
  bool on_stream = false;    ///< kernels are enqueued on a stream
  PerLane<bool> channels{};  ///< what comm::Channel::capturable() says
};

/// Decides by its arguments alone, which are the same on all ranks: collectives must be captured by all of
/// them, or by none. `wish` is off where the deck says so, or where a tool wants to see launches.
Capture capture_of(const plan::Plan& plan, const CaptureMeans& means, CudaGraph wish);

/// The answer in words, for the log: "runs are replays of a CUDA graph", or "no CUDA graph (WHY)".
std::string_view text_of(Capture capture);

}  // namespace weft::exec
