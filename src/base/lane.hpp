// Lanes: the queues that a plan's instructions run on. On CUDA a lane is a stream; on the host `compute` is
// the main thread and the communication lanes are first-in-first-out queues of the communication thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/mesh.hpp"

namespace weft {

/// The lanes gather and reduce run over the axis that state is cut over, replica over the axis that repeats
/// it, pipe over the axis that the layers are cut over, tensor over the axis that matrices are cut over,
/// copies over those neighbours on it that have the same heads of keys and values, and context over the axis
/// that sequences are cut over. With a lane of its own, what travels between hosts does not stand in line
/// behind what stays inside one. The last four carry the messages between the stages of a pipe, from and to
/// the neighbours on it: `previous` has the place before, `next` the one behind. Activations go one way of a
/// border and gradients the other, so that a message that the receiver is not ready for holds up none of
/// another kind. Where the stages turn round (StagePlaces::folded), those that come back send their gradients
/// along with the activations of those that go.
enum class Lane : std::uint8_t {
  compute,
  gather,
  reduce,
  replica,
  pipe,
  tensor,
  copies,
  context,
  from_previous,
  to_next,
  from_next,
  to_previous
};
inline constexpr int lane_count = 12;

constexpr std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::compute: return "compute";
    case Lane::gather: return "gather";
    case Lane::reduce: return "reduce";
    case Lane::replica: return "replica";
    case Lane::pipe: return "pipe";
    case Lane::tensor: return "tensor";
    case Lane::copies: return "copies";
    case Lane::context: return "context";
    case Lane::from_previous: return "from_previous";
    case Lane::to_next: return "to_next";
    case Lane::from_next: return "from_next";
    case Lane::to_previous: return "to_previous";
  }
  return "?";
}

/// The name of the axis that a lane's collectives run over; empty for compute and the lanes of messages.
constexpr std::string_view axis_of(Lane lane) {
  switch (lane) {
    case Lane::gather:
    case Lane::reduce: return data_axis;
    case Lane::replica: return replica_axis;
    case Lane::pipe: return pipe_axis;
    case Lane::tensor:
    case Lane::copies: return tensor_axis;
    case Lane::context: return context_axis;
    default: return {};
  }
}

}  // namespace weft
