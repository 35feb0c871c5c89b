// Shows that plan::verify sees each wait of a plan.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/per_lane.hpp"
#include "plan/plan.hpp"

namespace weft::test {

/// Expects that the plan does not verify when one of its waits is taken away: each of them is needed. Returns
/// how many waits for each lane there were.
inline PerLane<int> expect_every_wait_is_needed(const plan::Plan& good) {
  PerLane<int> waits{};
  for (std::size_t i = 0; i < good.instructions.size(); ++i)
    for (std::size_t w = 0; w < good.instructions[i].waits.size(); ++w) {
      ++waits[good.instructions[i].waits[w].lane];
      plan::Plan bad = good;
      bad.instructions[i].waits.erase(bad.instructions[i].waits.begin() + static_cast<std::ptrdiff_t>(w));
      EXPECT_THROW(plan::verify(bad), std::logic_error) << "instruction " << i;
    }
  return waits;
}

}  // namespace weft::test
