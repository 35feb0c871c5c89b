// Collects what the communication thread reports of finished collectives, for a traced step.
#pragma once

#include <mutex>
#include <vector>

#include "comm/channel.hpp"

namespace weft::exec {

class CollectiveLog {
 public:
  /// Before the channel's first operation. The log outlives the channel.
  void observe(comm::Channel& channel);
  void start();
  std::vector<comm::FinishedCall> stop();

 private:
  std::mutex mutex_;
  bool on_ = false;
  std::vector<comm::FinishedCall> records_;
};

}  // namespace weft::exec
