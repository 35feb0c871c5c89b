// What cuDNN's C++ front end refers to and Weft's graphs do not call: a call ends the process.
#include <cuda_runtime.h>
#include <nvrtc.h>

#include "fakecuda/device.hpp"

#define WEFT_UNUSED(result, name, ...)                                                \
  result name(__VA_ARGS__) {                                                          \
    fakecuda::fail(#name " is called, and the preset fakecuda has no such function"); \
  }

extern "C" {
WEFT_UNUSED(cudaError_t, cudaEventCreate, cudaEvent_t*)
WEFT_UNUSED(cudaError_t, cudaGraphRetainUserObject, cudaGraph_t, cudaUserObject_t, unsigned, unsigned)
WEFT_UNUSED(cudaError_t, cudaUserObjectCreate, cudaUserObject_t*, void*, cudaHostFn_t, unsigned, unsigned)
WEFT_UNUSED(cudaError_t, cudaUserObjectRelease, cudaUserObject_t, unsigned)
WEFT_UNUSED(cudaError_t, cudaKernelSetAttributeForDevice, cudaKernel_t, cudaFuncAttribute, int, int)
WEFT_UNUSED(cudaError_t, cudaLaunchKernel, const void*, dim3, dim3, void**, std::size_t, cudaStream_t)
WEFT_UNUSED(cudaError_t, cudaLibraryGetKernel, cudaKernel_t*, cudaLibrary_t, const char*)
WEFT_UNUSED(cudaError_t, cudaLibraryLoadData, cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned,
            cudaLibraryOption*, void**, unsigned)
WEFT_UNUSED(cudaError_t, cudaLibraryUnload, cudaLibrary_t)
WEFT_UNUSED(cudaError_t, cudaPointerGetAttributes, cudaPointerAttributes*, const void*)
WEFT_UNUSED(nvrtcResult, nvrtcCreateProgram, nvrtcProgram*, const char*, const char*, int, const char* const*,
            const char* const*)
WEFT_UNUSED(nvrtcResult, nvrtcCompileProgram, nvrtcProgram, int, const char* const*)
WEFT_UNUSED(nvrtcResult, nvrtcDestroyProgram, nvrtcProgram*)
WEFT_UNUSED(nvrtcResult, nvrtcGetCUBIN, nvrtcProgram, char*)
WEFT_UNUSED(nvrtcResult, nvrtcGetCUBINSize, nvrtcProgram, std::size_t*)
WEFT_UNUSED(nvrtcResult, nvrtcGetProgramLog, nvrtcProgram, char*)
WEFT_UNUSED(nvrtcResult, nvrtcGetProgramLogSize, nvrtcProgram, std::size_t*)

/// The front end asks for the driver's calls by name, and does without those that are not there.
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  *function = nullptr;
  return cudaErrorNotSupported;
}
}
