#include "comm/nccl/check_cuda.hpp"

namespace weft::comm::detail {

void fail_cuda(const char* text, const char* expression, const char* file, int line) {
  int device = -1;
  cudaGetDevice(&device);
  throw Error(ExitCode::comm_failure,
              fmt::format("{} failed on device {}: {} ({}:{})", expression, device, text, file, line));
}

}  // namespace weft::comm::detail
