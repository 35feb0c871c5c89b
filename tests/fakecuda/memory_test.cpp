// Tests of the fake device's copies from and to the host, and of the count of what is open.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#ifdef WEFT_CUDNN
#include <cudnn.h>
#endif

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fakecuda/device.hpp"

namespace weft::test {
namespace {

/// A stream with a number on the device, and a number on the host in pinned or in pageable memory.
class FakeMemory : public ::testing::TestWithParam<bool> {
 protected:
  FakeMemory() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&device_, sizeof(int)), cudaSuccess);
    EXPECT_EQ(cudaHostAlloc(&pinned_, sizeof(int), cudaHostAllocDefault), cudaSuccess);
    *host() = 0;
  }
  ~FakeMemory() override {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    cudaGetLastError();
  }

  static bool is_pinned() { return GetParam(); }
  int* host() { return is_pinned() ? static_cast<int*>(pinned_) : &pageable_; }
  cudaError_t copy_to_device() {
    return cudaMemcpyAsync(device_, host(), sizeof(int), cudaMemcpyHostToDevice, stream_);
  }
  cudaError_t copy_to_host() {
    return cudaMemcpyAsync(host(), device_, sizeof(int), cudaMemcpyDeviceToHost, stream_);
  }
  /// Holds back what is put on the stream from now on, until it is opened.
  std::shared_ptr<std::atomic<bool>> put_gate() {
    auto open = std::make_shared<std::atomic<bool>>(false);
    EXPECT_EQ(fakecuda::enqueue(stream_, "a gate",
                                [open] {
                                  return fakecuda::Work([open] {
                                    return *open ? fakecuda::Turn::done : fakecuda::Turn::waiting;
                                  });
                                }),
              cudaSuccess);
    return open;
  }

  cudaStream_t stream_ = nullptr;
  void *device_ = nullptr, *pinned_ = nullptr;
  int pageable_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Hosts, FakeMemory, ::testing::Bool());

/// What the host writes after the call arrives from pinned memory, and does not from pageable memory.
TEST_P(FakeMemory, PageableSourcesAreReadWithinTheCall) {
  const auto gate = put_gate();
  *host() = 1;
  EXPECT_EQ(copy_to_device(), cudaSuccess);
  *host() = 2;
  *gate = true;
  int seen = 0;
  EXPECT_EQ(cudaMemcpyAsync(&seen, device_, sizeof seen, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_EQ(seen, is_pinned() ? 2 : 1);
}

TEST_P(FakeMemory, PageableTargetsAreWrittenWithinTheCall) {
  *host() = 7;
  EXPECT_EQ(copy_to_device(), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  *host() = 0;
  const auto gate = is_pinned() ? put_gate() : nullptr;
  EXPECT_EQ(copy_to_host(), cudaSuccess);
  EXPECT_EQ(*host(), is_pinned() ? 0 : 7);
  if (gate != nullptr) *gate = true;
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*host(), 7);
}

TEST_P(FakeMemory, PageableMemoryIsNoPartOfACapture) {
  const std::function<cudaError_t()> copies[] = {[&] { return copy_to_device(); },
                                                 [&] { return copy_to_host(); }};
  for (const auto& copy : copies) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_EQ(copy(), is_pinned() ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph),
              is_pinned() ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
    if (graph != nullptr) {
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
  }
}

/// One object of a kind: what opens it and what closes it.
struct Opened {
  std::string kind;
  std::function<void()> open, close;
};

TEST(FakeCounts, AllThatIsOpenIsCounted) {
  void *device = nullptr, *pinned = nullptr;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  std::vector<Opened> all{
      {"allocations of device memory", [&] { cudaMalloc(&device, 1); }, [&] { cudaFree(device); }},
      {"allocations of pinned memory", [&] { cudaHostAlloc(&pinned, 1, cudaHostAllocDefault); },
       [&] { cudaFreeHost(pinned); }},
      {"handles of cuBLASLt", [&] { cublasLtCreate(&handle); }, [&] { cublasLtDestroy(handle); }},
      {"layouts of cuBLASLt", [&] { cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 1, 1, 1); },
       [&] { cublasLtMatrixLayoutDestroy(layout); }},
      {"descriptions of cuBLASLt",
       [&] { cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F); },
       [&] { cublasLtMatmulDescDestroy(description); }},
      {"preferences of cuBLASLt", [&] { cublasLtMatmulPreferenceCreate(&preference); },
       [&] { cublasLtMatmulPreferenceDestroy(preference); }}};
#ifdef WEFT_CUDNN
  cudnnHandle_t of_cudnn = nullptr;
  all.push_back({"handles of cuDNN", [&] { cudnnCreate(&of_cudnn); }, [&] { cudnnDestroy(of_cudnn); }});
#endif
  for (const Opened& one : all) {
    const int before = fakecuda::objects(one.kind.c_str());
    one.open();
    EXPECT_EQ(fakecuda::objects(one.kind.c_str()), before + 1) << one.kind;
    one.close();
    EXPECT_EQ(fakecuda::objects(one.kind.c_str()), before) << one.kind;
  }
}

}  // namespace
}  // namespace weft::test
