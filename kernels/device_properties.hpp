// Asks a device what it is and how much memory it has left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::kernels {

/// What decides the bits of a device's results, beside the program; it must be equal on all ranks of a run.
/// Names and values: of the device that is current on the calling thread, and the versions of the libraries
/// that compute on it. Empty where the device is the host.
std::vector<std::pair<std::string, std::string>> device_properties();

struct DeviceMemory {
  std::int64_t free = 0, total = 0;  ///< bytes, whoever holds the rest
};
/// The memory of the device that is current on the calling thread; empty where the device is the host, and
/// where CUDA does not say. It takes up to a millisecond.
std::optional<DeviceMemory> device_memory();

}  // namespace weft::kernels
