// What a host back end must provide: non-blocking messages between the ranks of one channel. Used by one
// thread only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::comm::detail {

/// A message in flight, in the transport's own terms. Default: no message.
struct Request {
  std::uint64_t handle = 0;
  bool active = false;
};

/// Messages between two ranks with the same tag arrive in the order in which they were sent. Errors throw
/// weft::Error.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Request send(int peer, int tag, const void* data, std::size_t bytes) = 0;
  virtual Request recv(int peer, int tag, void* data, std::size_t bytes) = 0;
  /// True once the message is complete (also for a default Request); then the request is inactive.
  virtual bool test(Request& request) = 0;
};

}  // namespace weft::comm::detail
