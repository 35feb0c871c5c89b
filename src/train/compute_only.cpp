#include "train/compute_only.hpp"

#include <array>
#include <vector>

#include "base/median.hpp"

namespace weft::train {

double compute_only_seconds(comm::World& world, exec::Executor& step) {
  constexpr double long_s = 0.5;
  step.run(exec::Run::full);
  // The second run captures it, and the third is the first that replays it.
  if (step.capture() == exec::Capture::captured)
    for (int i = 0; i < 2; ++i) step.run(exec::Run::compute_only);
  const auto timed = [&] {
    world.barrier();
    return step.run(exec::Run::compute_only).step;
  };
  std::vector<double> seconds{timed()};
  std::array<double, 1> slowest{seconds[0]};
  world.all_reduce_max(slowest);
  while (slowest[0] <= long_s && seconds.size() < 3) seconds.push_back(timed());
  step.forget(exec::Run::compute_only);  // a graph has memory of the device, and this one has no more runs
  slowest[0] = median(seconds);
  world.all_reduce_max(slowest);  // stages of a pipe have more or fewer layers
  return slowest[0];
}

}  // namespace weft::train
