// The NCCL world: channels on CUDA streams. MPI (any host world) starts it and keeps the blocking
// conveniences. It is built under WEFT_CUDA only, and includes no CUDA header.
#pragma once

#include <memory>

#include "comm/world.hpp"

namespace weft::comm {

/// Makes a device (local rank mod devices of the host) current on the calling thread, and returns its number.
/// Throws Error(bad_input) when the host has none. Call it before anything else touches CUDA.
int bind_device(const World& world);

/// Makes the world. Channels opened on it are NCCL communicators, each with a stream of its own. Buffers are
/// device memory, and events carry a cudaEvent_t (Timeline::native_event). Dependencies on host timelines
/// block the submitting thread until they are done. It binds the device. Everything else is the host world's.
std::unique_ptr<World> make_nccl_world(std::unique_ptr<World> host);

}  // namespace weft::comm
