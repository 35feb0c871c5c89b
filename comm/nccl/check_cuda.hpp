// What the CUDA sources of this folder share. CHECK_CUDA and CHECK_NCCL throw Error(comm_failure) with
// expression, place, and the library's own text, which in NCCL has a second part: what went wrong last. Only
// the CUDA sources of this folder may include this file.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include "base/check.hpp"

namespace weft::comm::detail {

[[noreturn]] void fail_cuda(const char* text, const char* expression, const char* file, int line);
[[noreturn]] void fail_nccl(ncclResult_t code, const char* expression, const char* file, int line);

/// A stream, which headers without CUDA hold as void*.
inline cudaStream_t as_stream(void* p) {
  return static_cast<cudaStream_t>(p);
}

}  // namespace weft::comm::detail

#define CHECK_CUDA(call)                                                                          \
  do {                                                                                            \
    if (const cudaError_t check_code = (call); check_code != cudaSuccess)                         \
      ::weft::comm::detail::fail_cuda(cudaGetErrorString(check_code), #call, __FILE__, __LINE__); \
  } while (false)

#define CHECK_NCCL(call)                                                      \
  do {                                                                        \
    if (const ncclResult_t check_code = (call); check_code != ncclSuccess)    \
      ::weft::comm::detail::fail_nccl(check_code, #call, __FILE__, __LINE__); \
  } while (false)
