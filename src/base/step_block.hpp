// The step block: the few scalars that change from step to step. The host writes it to the device before a
// step, kernels read it there, so that one plan (or one captured CUDA graph) serves every step.
#pragma once

#include <cstdint>

namespace weft {

struct StepBlock {
  float lr = 0;           ///< learning rate of this step
  float decay = 1;        ///< 1 - lr * weight_decay, the factor on the parameter
  float step_size = 0;    ///< lr / (1 - beta1^t)
  float bias2_sqrt = 1;   ///< sqrt(1 - beta2^t)
  std::int32_t step = 0;  ///< t, counted from one
  std::int32_t hold = 0;  ///< not 0: the update leaves the state as it is, for a rehearsal of the step
  std::int32_t reserved[2] = {0, 0};
};
static_assert(sizeof(StepBlock) == 32);

}  // namespace weft
