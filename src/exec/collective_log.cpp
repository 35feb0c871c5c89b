#include "exec/collective_log.hpp"

#include <utility>

namespace weft::exec {

void CollectiveLog::observe(comm::Channel& channel) {
  channel.set_observer([this](const comm::FinishedCall& record) {
    const std::lock_guard lock(mutex_);
    if (on_) records_.push_back(record);
  });
}

void CollectiveLog::start() {
  const std::lock_guard lock(mutex_);
  on_ = true;
  records_.clear();
}

std::vector<comm::FinishedCall> CollectiveLog::stop() {
  const std::lock_guard lock(mutex_);
  on_ = false;
  return std::move(records_);
}

}  // namespace weft::exec
