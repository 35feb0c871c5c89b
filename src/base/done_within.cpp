#include "base/done_within.hpp"

#include <chrono>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

namespace weft {

bool done_within(double seconds, std::function<void()> task) {
  std::packaged_task<void()> told(std::move(task));
  const std::future<void> done = told.get_future();
  try {
    std::thread(std::move(told)).detach();
  } catch (const std::system_error&) {  // no thread can be made, which must not stop who ends a run
    return false;
  }
  return done.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready;
}

}  // namespace weft
