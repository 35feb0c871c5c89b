// What a host back end must provide: non-blocking messages between the ranks of one channel. Only one thread
// uses a transport.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::comm::detail {

/// A message under way, in the transport's own terms. The default is no message.
struct Request {
  std::uint64_t handle = 0;
  bool active = false;
};

/// Sends and receives messages. Those between two ranks with the same tag arrive in the order in which they
/// were sent. Errors throw weft::Error.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Request send(int peer, int tag, const void* data, std::size_t bytes) = 0;
  virtual Request recv(int peer, int tag, void* data, std::size_t bytes) = 0;
  /// Whether the message is complete (which a default Request is, too); the request is inactive then.
  virtual bool test(Request& request) = 0;
};

}  // namespace weft::comm::detail
