#include "exec/launch_check.hpp"

#include "base/check.hpp"

namespace weft::exec {

void check_launches(const LaunchErrors& errors, const std::string& name, const ir::Node* node) {
  const std::string error = errors();
  if (error.empty()) return;
  if (node != nullptr)
    throw Error(ExitCode::environment,
                fmt::format("the device refuses the kernel {} of {} in {} ({}); look at the device "
                            "(nvidia-smi), or report it with deck and log",
                            name_of(node->op), node->module, name_of(node->phase), error));
  throw Error(ExitCode::environment,
              fmt::format("the device refuses a launch in the run of '{}' ({}); look at the device "
                          "(nvidia-smi), or set schedule.cuda_graph = \"off\" to see which kernel it was",
                          name, error));
}

}  // namespace weft::exec
