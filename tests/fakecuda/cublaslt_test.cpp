// Tests of the fake cuBLASLt: what the library would refuse is refused, and what it may answer is answered.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/check.hpp"
#include "fakecuda/device.hpp"
#include "kernels/matmul.hpp"
#include "support/kokkos_environment.hpp"

namespace weft::test {
namespace {

enum class Scales { none, by_row };
using Results = std::array<cublasLtMatmulHeuristicResult_t, 8>;

/// A product of 16 x 16 matrices, in bf16 or in Float8. All that it reads and writes is one allocation.
class Product {
 public:
  static constexpr std::size_t allowed = 4096;  ///< what the preference allows a workspace

  explicit Product(Scales scales) {
    EXPECT_EQ(cudaMalloc(&memory_, 6 * stride), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(memory_, 0, 6 * stride, cudaStreamLegacy), cudaSuccess);
    cublasLtCreate(&handle_);
    cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&in_, scales == Scales::none ? CUDA_R_16BF : CUDA_R_8F_E4M3, 16, 16, 16);
    cublasLtMatrixLayoutCreate(&out_, CUDA_R_16BF, 16, 16, 16);
    cublasLtMatmulPreferenceCreate(&preference_);
    const std::size_t most = allowed;
    cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                         sizeof most);
    if (scales == Scales::none) return;
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    for (const auto mode : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
      set(mode, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    place_scales(0, 0);
  }
  ~Product() {
    cudaDeviceSynchronize();
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatrixLayoutDestroy(out_);
    cublasLtMatrixLayoutDestroy(in_);
    cublasLtMatmulDescDestroy(description_);
    cublasLtDestroy(handle_);
    cudaFree(memory_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// Places the scales of both operands so many bytes behind aligned places.
  void place_scales(std::size_t a, std::size_t b) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(at(4) + a));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(at(5) + b));
  }
  /// Fills in the algorithms that the heuristics offer, and returns their number.
  int ask(Results& results) {
    int found = -1;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle_, description_, in_, in_, out_, out_, preference_,
                                             static_cast<int>(results.size()), results.data(), &found),
              CUBLAS_STATUS_SUCCESS);
    return found;
  }
  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, std::size_t workspace_bytes) {
    const float one = 1, zero = 0;
    return cublasLtMatmul(handle_, description_, &one, at(0), in_, at(1), in_, &zero, at(2), out_, at(2),
                          out_, &algorithm, at(3), workspace_bytes, cudaStreamLegacy);
  }

 private:
  static constexpr std::size_t stride = 2 * allowed;

  std::byte* at(std::size_t operand) const { return static_cast<std::byte*>(memory_) + operand * stride; }
  template <class V>
  void set(cublasLtMatmulDescAttributes_t which, V value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description_, which, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  }

  void* memory_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t in_ = nullptr, out_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

class FakeCublasLtDeathTest : public ::testing::Test {
 protected:
  FakeCublasLtDeathTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

/// Algorithms want different workspaces, and as much as is allowed at most. Each runs with what it wants, and
/// not with less.
TEST_F(FakeCublasLtDeathTest, AnAlgorithmHasTheWorkspaceThatItWants) {
  Product product(Scales::none);
  Results results{};
  const int found = product.ask(results);
  ASSERT_EQ(found, 3);
  EXPECT_EQ(results[0].workspaceSize, Product::allowed);
  EXPECT_EQ(results[2].workspaceSize, 0U);
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    EXPECT_EQ(product.run(result.algo, result.workspaceSize), CUBLAS_STATUS_SUCCESS);
    if (result.workspaceSize > 0) {
      EXPECT_DEATH(product.run(result.algo, result.workspaceSize - 1), "the workspace is smaller");
    }
  }
}

TEST_F(FakeCublasLtDeathTest, ScalesOfRowsAreAligned) {
  Product product(Scales::by_row);
  Results results{};
  ASSERT_GT(product.ask(results), 0);
  EXPECT_EQ(product.run(results[0].algo, Product::allowed), CUBLAS_STATUS_SUCCESS);
  product.place_scales(4, 0);
  EXPECT_DEATH(product.run(results[0].algo, Product::allowed), "the rows' scales are not aligned");
  product.place_scales(0, 8);
  EXPECT_DEATH(product.run(results[0].algo, Product::allowed), "the rows' scales are not aligned");
}

/// The library may say "success" and have found nothing, of which Weft makes a line.
TEST(FakeCublasLt, HeuristicsMayFindNothing) {
  std::string line;
  ::setenv("FAKECUDA_FAULT", "cublasLtMatmulAlgoGetHeuristic", 1);
  try {
    const kernels::Matmul matmul({kernels::MatmulForm::forward, 3, 5, 7, DType::f32, DType::f32});
  } catch (const Error& e) {
    line = e.what();
  }
  ::unsetenv("FAKECUDA_FAULT");
  EXPECT_NE(line.find("matmul: cuBLASLt has no algorithm for 3 x 7 x 5 aligned to 16 bytes"),
            std::string::npos)
      << line;
}

}  // namespace
}  // namespace weft::test
