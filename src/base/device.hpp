// Tells whether this build of Weft computes on the host or on a GPU.
#pragma once

namespace weft {

/// Whether the host can read and write device memory: without the CUDA back end the host is the device.
constexpr bool device_is_host() {
#if defined(WEFT_CUDA) || defined(WEFT_HIP)
  return false;
#else
  return true;
#endif
}

}  // namespace weft
