// Tests of the fake cuBLASLt: what the library would refuse is refused, and what it may answer is answered.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/dtype.hpp"
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
  enum Operand : std::size_t { a, b, c, d };  ///< by cuBLASLt's names: D = A B + C
  static constexpr std::array operands{a, b, c, d};
  static constexpr std::size_t allowed = 4096;  ///< what the preference allows a workspace
  static constexpr std::int64_t n = 16;         ///< rows, columns and, at first, leading dimensions

  explicit Product(Scales scales) {
    EXPECT_EQ(cudaMalloc(&memory_, 6 * stride), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(memory_, 0, 6 * stride, cudaStreamLegacy), cudaSuccess);
    cublasLtCreate(&handle_);
    cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    in_ = scales == Scales::none ? CUDA_R_16BF : CUDA_R_8F_E4M3;
    for (const Operand operand : operands) {
      EXPECT_TRUE(set_leading_dimension(operand, n));
      move(operand, 0);
    }
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
    for (cublasLtMatrixLayout_t layout : layouts_) cublasLtMatrixLayoutDestroy(layout);
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
  /// Promises an alignment to the algorithms that are asked for from now on.
  void promise(Operand operand, std::uint32_t bytes) {
    constexpr std::array attributes{
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference_, attributes[operand], &bytes, sizeof bytes),
              CUBLAS_STATUS_SUCCESS);
  }
  /// Places an operand so many bytes behind an aligned place. C and D have one such place.
  void move(Operand operand, std::size_t bytes) { places_[operand] = at(std::min(operand, c)) + bytes; }
  /// Places an operand so that the allocation ends where the dense matrix does.
  void move_to_end(Operand operand) { places_[operand] = at(6) - n * n * sizeof(bf16); }
  /// Gives false, and leaves the layout as it was, where the library refuses the leading dimension.
  bool set_leading_dimension(Operand operand, std::int64_t apart) {
    cublasLtMatrixLayout_t layout = nullptr;
    if (cublasLtMatrixLayoutCreate(&layout, operand < c ? in_ : CUDA_R_16BF, n, n, apart) !=
        CUBLAS_STATUS_SUCCESS)
      return false;
    if (layouts_[operand] != nullptr) cublasLtMatrixLayoutDestroy(layouts_[operand]);
    layouts_[operand] = layout;
    return true;
  }
  /// Uploads numbers to where an operand lies, and fetches them from there.
  void write(Operand operand, const std::vector<bf16>& numbers) {
    EXPECT_EQ(cudaMemcpyAsync(places_[operand], numbers.data(), numbers.size() * sizeof(bf16),
                              cudaMemcpyHostToDevice, cudaStreamLegacy),
              cudaSuccess);
  }
  std::vector<bf16> read(Operand operand, std::size_t count) const {
    std::vector<bf16> numbers(count);
    EXPECT_EQ(cudaMemcpyAsync(numbers.data(), places_[operand], count * sizeof(bf16), cudaMemcpyDeviceToHost,
                              cudaStreamLegacy),
              cudaSuccess);
    return numbers;
  }
  /// Fills in the algorithms that the heuristics offer, and returns their number.
  int ask(Results& results) {
    int found = -1;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle_, description_, layouts_[a], layouts_[b], layouts_[c],
                                             layouts_[d], preference_, static_cast<int>(results.size()),
                                             results.data(), &found),
              CUBLAS_STATUS_SUCCESS);
    return found;
  }
  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, std::size_t workspace_bytes) {
    const float one = 1, zero = 0;
    return cublasLtMatmul(handle_, description_, &one, places_[a], layouts_[a], places_[b], layouts_[b],
                          &zero, places_[c], layouts_[c], places_[d], layouts_[d], &algorithm, at(3),
                          workspace_bytes, cudaStreamLegacy);
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
  cudaDataType in_ = CUDA_R_16BF;  ///< the type of A and B
  std::array<std::byte*, operands.size()> places_{};
  std::array<cublasLtMatrixLayout_t, operands.size()> layouts_{};
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

/// An algorithm is for operands of the types and the kind of scales that it was chosen for.
TEST_F(FakeCublasLtDeathTest, AnAlgorithmIsForItsOperandsAlone) {
  Product plain(Scales::none), by_row(Scales::by_row);
  Results of_plain{}, of_rows{};
  ASSERT_GT(plain.ask(of_plain), 0);
  ASSERT_GT(by_row.ask(of_rows), 0);
  EXPECT_EQ(plain.run(of_plain[0].algo, Product::allowed), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(by_row.run(of_rows[0].algo, Product::allowed), CUBLAS_STATUS_SUCCESS);
  const char* const line = "the algorithm was chosen for operands of other types or with other scales";
  EXPECT_DEATH(plain.run(of_rows[0].algo, Product::allowed), line);
  EXPECT_DEATH(by_row.run(of_plain[0].algo, Product::allowed), line);
}

/// Each operand has an alignment of its own, which half of it is not.
TEST_F(FakeCublasLtDeathTest, AnOperandIsAlignedAsWasPromised) {
  Product product(Scales::none);
  const auto promised = [](Product::Operand operand) { return std::uint32_t{16} << operand; };
  for (const Product::Operand operand : Product::operands) product.promise(operand, promised(operand));
  Results results{};
  ASSERT_GT(product.ask(results), 0);
  for (const Product::Operand operand : Product::operands) {
    product.move(operand, promised(operand));
    EXPECT_EQ(product.run(results[0].algo, Product::allowed), CUBLAS_STATUS_SUCCESS);
    product.move(operand, promised(operand) / 2);
    EXPECT_DEATH(product.run(results[0].algo, Product::allowed),
                 std::string("fakecuda: cublasLtMatmul: ") + "ABCD"[operand] + " is not aligned to the " +
                     std::to_string(promised(operand)) + " bytes that the algorithm was promised");
    product.move(operand, 0);
  }
}

/// Columns that are further apart than the matrix has them reach past its allocation.
TEST_F(FakeCublasLtDeathTest, ALeadingDimensionIsThatOfTheMatrix) {
  for (const Product::Operand operand : Product::operands) {
    Product product(Scales::none);
    product.move_to_end(operand);
    Results results{};
    ASSERT_GT(product.ask(results), 0);
    EXPECT_EQ(product.run(results[0].algo, Product::allowed), CUBLAS_STATUS_SUCCESS);
    EXPECT_FALSE(product.set_leading_dimension(operand, Product::n - 1));
    ASSERT_TRUE(product.set_leading_dimension(operand, Product::n + 1));
    EXPECT_DEATH(product.run(results[0].algo, Product::allowed),
                 std::string("fakecuda: cublasLtMatmul: ") + "ABCD"[operand] +
                     " .542 bytes. lies in no allocation of the device");
  }
  Product product(Scales::none);
  Results results{};
  ASSERT_GT(product.ask(results), 0);
  ASSERT_TRUE(product.set_leading_dimension(Product::c, Product::n + 1));
  EXPECT_DEATH(product.run(results[0].algo, Product::allowed),
               "fakecuda: cublasLtMatmul: C and D have layouts that Weft does not ask for");
}

/// Where the memory behind the matrix is the same allocation, a wrong leading dimension is a wrong result.
TEST(FakeCublasLt, ColumnsAreReadAndWrittenWhereTheirLeadingDimensionsSay) {
  constexpr std::size_t n = Product::n, apart = n + 1;
  std::vector<bf16> numbers(n * apart), identity(n * n);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = to_bf16(static_cast<float>(i % 251));
  for (std::size_t i = 0; i < n; ++i) identity[i * n + i] = to_bf16(1);
  for (const Product::Operand strided : {Product::a, Product::d}) {
    Product product(Scales::none);
    product.write(Product::a, numbers);
    product.write(Product::b, identity);
    ASSERT_TRUE(product.set_leading_dimension(strided, apart));
    if (strided == Product::d) {
      ASSERT_TRUE(product.set_leading_dimension(Product::c, apart));
    }
    Results results{};
    ASSERT_GT(product.ask(results), 0);
    EXPECT_EQ(product.run(results[0].algo, Product::allowed), CUBLAS_STATUS_SUCCESS);
    const std::vector<bf16> out = product.read(Product::d, n * apart);
    for (std::size_t column = 0; column < n; ++column)
      for (std::size_t row = 0; row < n; ++row)
        EXPECT_EQ(to_float(out[column * (strided == Product::d ? apart : n) + row]),
                  to_float(numbers[column * (strided == Product::a ? apart : n) + row]))
            << "row " << row << ", column " << column;
  }
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
