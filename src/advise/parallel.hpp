// Runs independent pieces of work on all cores.
#pragma once

#include <cstddef>
#include <functional>

namespace weft::advise {

/// Calls work(i) for each i below `count`, on as many threads as there are cores. Where calls throw, the
/// exception of the smallest such i is thrown when all have ended.
void for_all(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace weft::advise
