#include "comm/host/mpi_transport.hpp"

#include <atomic>
#include <cstring>

#include "base/check.hpp"
#include "comm/host/check_mpi.hpp"

namespace weft::comm::detail {
namespace {

std::atomic<int> g_rank{0};

// MPI_Request is a pointer in Open MPI and an int in MPICH.
static_assert(sizeof(MPI_Request) <= sizeof(std::uint64_t));
Request wrap(MPI_Request request) {
  Request r{0, true};
  std::memcpy(&r.handle, &request, sizeof(MPI_Request));
  return r;
}

}  // namespace

void set_mpi_rank(int rank) {
  g_rank = rank;
}

void fail_mpi(int code, const char* expression, const char* file, int line) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ExitCode::comm_failure,
              fmt::format("{} failed on rank {}: {} ({}:{})", expression, g_rank.load(), text, file, line));
}

MpiTransport::~MpiTransport() {
  MPI_Comm_free(&comm_);
}

Request MpiTransport::send(int peer, int tag, const void* data, std::size_t bytes) {
  MPI_Request request;
  CHECK_MPI(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_, &request));
  return wrap(request);
}

Request MpiTransport::recv(int peer, int tag, void* data, std::size_t bytes) {
  MPI_Request request;
  CHECK_MPI(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_, &request));
  return wrap(request);
}

bool MpiTransport::test(Request& request) {
  if (!request.active) return true;
  MPI_Request mpi_request;
  std::memcpy(&mpi_request, &request.handle, sizeof(MPI_Request));
  int complete = 0;
  CHECK_MPI(MPI_Test(&mpi_request, &complete, MPI_STATUS_IGNORE));
  request.active = complete == 0;
  return complete != 0;
}

}  // namespace weft::comm::detail
