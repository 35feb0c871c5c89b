#include "comm/nccl/check_cuda.hpp"

#include <string>

namespace weft::comm::detail {

void fail_cuda(const char* text, const char* expression, const char* file, int line) {
  int device = -1;
  cudaGetDevice(&device);
  throw Error(ExitCode::comm_failure,
              fmt::format("{} failed on device {}: {} ({}:{})", expression, device, text, file, line));
}

void fail_nccl(ncclResult_t code, const char* expression, const char* file, int line) {
  std::string text = ncclGetErrorString(code);
  // NCCL keeps it for all communicators of a process, and looks at none.
  if (const char* last = ncclGetLastError(nullptr); last != nullptr && *last != '\0')
    text.append("; NCCL's last message: ").append(last);
  fail_cuda(text.c_str(), expression, file, line);
}

}  // namespace weft::comm::detail
