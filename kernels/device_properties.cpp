#include "kernels/device_properties.hpp"

#include <fmt/core.h>

#ifdef WEFT_CUDA
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#ifdef WEFT_CUDNN
#include <cudnn.h>
#endif
#endif

namespace weft::kernels {

std::vector<std::pair<std::string, std::string>> device_properties() {
  std::vector<std::pair<std::string, std::string>> all;
#ifdef WEFT_CUDA
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) == cudaSuccess && cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
    all.emplace_back("the device", properties.name);
    all.emplace_back("the device's compute capability",
                     fmt::format("{}.{}", properties.major, properties.minor));
  }
  all.emplace_back("cuBLASLt's version", std::to_string(cublasLtGetVersion()));
#ifdef WEFT_CUDNN
  all.emplace_back("cuDNN's version", std::to_string(cudnnGetVersion()));
#endif
#endif
  return all;
}

std::optional<DeviceMemory> device_memory() {
#ifdef WEFT_CUDA
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess)
    return DeviceMemory{static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
  cudaGetLastError();  // whoever needs the device finds its error again
#endif
  return std::nullopt;
}

}  // namespace weft::kernels
