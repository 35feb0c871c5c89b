#include "base/done_within.hpp"

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace weft {

bool done_within(double seconds, std::function<void()> task) {
  std::packaged_task<void()> told(std::move(task));
  const std::future<void> done = told.get_future();
  std::thread(std::move(told)).detach();
  return done.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready;
}

}  // namespace weft
