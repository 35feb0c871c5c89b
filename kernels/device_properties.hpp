// Tells what decides the bits of a device's results, beside the program. It must be equal on all ranks of a
// run.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft::kernels {

/// Names and values: of the device that is current on the calling thread, and the versions of the libraries
/// that compute on it. Empty where the device is the host.
std::vector<std::pair<std::string, std::string>> device_properties();

}  // namespace weft::kernels
