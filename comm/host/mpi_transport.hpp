// The transport over MPI: one communicator a channel. Includes mpi.h: for mpi*.cpp only.
#pragma once

#include <mpi.h>

#include "comm/host/transport.hpp"

namespace weft::comm::detail {

class MpiTransport final : public Transport {
 public:
  /// Takes the communicator over. Made and destroyed, like all its calls, on the thread that talks to MPI.
  explicit MpiTransport(MPI_Comm comm) : comm_(comm) {}
  ~MpiTransport() override;
  Request send(int peer, int tag, const void* data, std::size_t bytes) override;
  Request recv(int peer, int tag, void* data, std::size_t bytes) override;
  bool test(Request& request) override;

 private:
  MPI_Comm comm_;
};

}  // namespace weft::comm::detail
