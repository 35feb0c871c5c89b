// CHECK_MPI(call) throws Error(comm_failure) that carries the expression, the place, the rank and MPI's own
// text.
#pragma once

namespace weft::comm::detail {

/// Sets the rank that CHECK_MPI names; call it once MPI is up.
void set_mpi_rank(int rank);
[[noreturn]] void fail_mpi(int code, const char* expression, const char* file, int line);

}  // namespace weft::comm::detail

#define CHECK_MPI(call)                                                           \
  do {                                                                            \
    if (const int check_mpi_code = (call); check_mpi_code != 0 /* MPI_SUCCESS */) \
      ::weft::comm::detail::fail_mpi(check_mpi_code, #call, __FILE__, __LINE__);  \
  } while (false)
