// Finds launches that failed. On a device a launch returns at once, and one that fails leaves the memory that
// its kernel would have written as it was: nothing else would tell.
#pragma once

#include <functional>
#include <string>

#include "ir/graph.hpp"

namespace weft::exec {

/// Gives the error that launches of this thread have left since the last call, in CUDA's words; empty when
/// there is none, and where the device is the host. Errors inside of a kernel that runs are not seen here: a
/// fence throws those.
using LaunchErrors = std::function<std::string()>;

/// Throws Error(environment) when a launch has failed. `node` is the kernel's node, or null when it may be
/// any in the run of plan `name`.
void check_launches(const LaunchErrors& errors, const std::string& name, const ir::Node* node);

}  // namespace weft::exec
