// Whether plans are for the device of this process.
#pragma once

#include "base/device.hpp"
#include "machine/profile.hpp"

namespace weft::machine {

/// Whether this process plans for another device than its own: a host for a GPU. What its own kernels and
/// libraries take then says nothing of what those take there.
inline bool is_gpu_elsewhere(const Compute& planned) {
  return planned.on_gpu() && device_is_host();
}

}  // namespace weft::machine
