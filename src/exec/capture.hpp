// Decides whether runs of a plan are replays of a CUDA graph.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/choices.hpp"
#include "base/per_lane.hpp"
#include "plan/plan.hpp"

namespace weft::exec {

/// captured: the second run of the plan without trace and tap is captured, and it and those after it are
/// launches of that graph. Otherwise why every run walks the plan's instructions.
enum class Capture : std::uint8_t { captured, unwanted, host_kernels, host_collectives };

/// The properties of what a plan runs on.
struct CaptureMeans {
  bool on_stream = false;    ///< kernels are enqueued on a stream
  PerLane<bool> channels{};  ///< comm::Channel::capturable()
};

/// A pure function, and of arguments that are the same on all ranks: collectives must be captured by all of
/// them, or by none. `wish` is off where the deck says so, and where a tool wants to see launches.
Capture capture_of(const plan::Plan& plan, const CaptureMeans& means, CudaGraph wish);

/// The answer in words, for the log: "runs are replays of a CUDA graph", or "no CUDA graph (WHY)".
std::string_view text_of(Capture capture);

}  // namespace weft::exec
