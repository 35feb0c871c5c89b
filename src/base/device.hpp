// Tells whether this build of Weft computes on the host or on a GPU.
#pragma once

namespace weft {

/// Whether the host can read and write device memory: without the CUDA back end the host is the device.
constexpr bool device_is_host() {
#ifdef WEFT_CUDA
  return false;
#else
  return true;
#endif
}

}  // namespace weft
