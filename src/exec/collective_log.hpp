// Collects, for a traced step, what the communication thread reports of finished collectives.
#pragma once

#include <mutex>
#include <vector>

#include "comm/channel.hpp"

namespace weft::exec {

class CollectiveLog {
 public:
  /// Collects from this channel. Call it before the channel's first call; the log outlives the channel.
  void observe(comm::Channel& channel);
  void start();
  std::vector<comm::FinishedCall> stop();

 private:
  std::mutex mutex_;
  bool on_ = false;
  std::vector<comm::FinishedCall> records_;
};

}  // namespace weft::exec
