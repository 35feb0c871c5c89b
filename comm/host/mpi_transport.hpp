// The transport over MPI, with one communicator for each channel. It includes mpi.h, so only mpi*.cpp may
// include it.
#pragma once

#include <mpi.h>

#include "comm/host/transport.hpp"

namespace weft::comm::detail {

class MpiTransport final : public Transport {
 public:
  /// Takes the communicator over. It is made, used and destroyed on the thread that talks to MPI.
  explicit MpiTransport(MPI_Comm comm) : comm_(comm) {}
  ~MpiTransport() override;
  Request send(int peer, int tag, const void* data, std::size_t bytes) override;
  Request recv(int peer, int tag, void* data, std::size_t bytes) override;
  bool test(Request& request) override;

 private:
  MPI_Comm comm_;
};

}  // namespace weft::comm::detail
