// Does something that may never come to an end, and goes on all the same.
#pragma once

#include <functional>

namespace weft {

/// Runs `task` on a thread of its own, and waits `seconds` for it. Returns whether it was done. A task that
/// was not, such as one that writes to storage which does not answer, is left to itself: it must own what it
/// uses, or the process must end without destructors. `task` does not throw. Where no thread can be made, it
/// is not run.
bool done_within(double seconds, std::function<void()> task);

}  // namespace weft
