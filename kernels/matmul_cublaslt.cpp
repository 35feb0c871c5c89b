// The CUDA matmul, on cuBLASLt.
#include <cublasLt.h>

#include "kernels/matmul.hpp"
#include "kernels/matmul_spec.hpp"

namespace weft::kernels {

namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
constexpr std::uint32_t operand_alignment = 16;

void check_status(cublasStatus_t status, const char* expression) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(fmt::format("{} failed ({})", expression, cublasLtGetStatusString(status)));
}
#define WEFT_CHECK_CUBLASLT(call) check_status((call), #call)

cublasLtHandle_t handle() {
  static const cublasLtHandle_t value = [] {
    cublasLtHandle_t h = nullptr;
    WEFT_CHECK_CUBLASLT(cublasLtCreate(&h));
    return h;
  }();
  return value;
}

cudaDataType_t data_type(DType t) {
  return t == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// A row-major matrix as cuBLASLt sees it: column-major and transposed.
struct Layout {
  Layout(DType t, std::int64_t rows, std::int64_t columns) {
    WEFT_CHECK_CUBLASLT(cublasLtMatrixLayoutCreate(&value, data_type(t), static_cast<std::uint64_t>(columns),
                                                   static_cast<std::uint64_t>(rows), columns));
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(value); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  cublasLtMatrixLayout_t value = nullptr;
};

struct Operation {
  Operation(bool first_transposed, bool second_transposed) {
    WEFT_CHECK_CUBLASLT(cublasLtMatmulDescCreate(&value, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, first_transposed);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second_transposed);
  }
  void set(cublasLtMatmulDescAttributes_t which, bool transposed) {
    const cublasOperation_t op = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    WEFT_CHECK_CUBLASLT(cublasLtMatmulDescSetAttribute(value, which, &op, sizeof op));
  }
  ~Operation() { cublasLtMatmulDescDestroy(value); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  cublasLtMatmulDesc_t value = nullptr;
};

struct Preference {
  Preference() {
    WEFT_CHECK_CUBLASLT(cublasLtMatmulPreferenceCreate(&value));
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    for (auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(which, operand_alignment);
    // Split sums are added from the workspace in a fixed order; the in-place scheme adds as blocks finish.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  template <class V>
  void set(cublasLtMatmulPreferenceAttributes_t which, V v) {
    WEFT_CHECK_CUBLASLT(cublasLtMatmulPreferenceSetAttribute(value, which, &v, sizeof v));
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(value); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t value = nullptr;
};

bool is_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % operand_alignment == 0;
}

}  // namespace

bool bits_depend_on_threads(DType /*type*/) {
  return false;
}

/// c^T = B^T A^T: what is row-major for us is the transpose, column-major, for cuBLASLt, and the operands
/// change places.
struct Matmul::Impl {
  explicit Impl(const MatmulSpec& spec)
      : sizes(sizes_of(spec)),
        operation(sizes.b_transposed, sizes.a_transposed),
        a(spec.type, sizes.a_transposed ? sizes.k : sizes.m, sizes.a_transposed ? sizes.m : sizes.k),
        b(spec.type, sizes.b_transposed ? sizes.n : sizes.k, sizes.b_transposed ? sizes.k : sizes.n),
        c(spec.result, sizes.m, sizes.n),
        beta(spec.add ? 1.0F : 0.0F) {
    const Preference preference;
    int found = 0;
    WEFT_CHECK_CUBLASLT(cublasLtMatmulAlgoGetHeuristic(handle(), operation.value, b.value, a.value, c.value,
                                                       c.value, preference.value, 1, &choice, &found));
    if (found == 0)
      throw std::runtime_error(
          fmt::format("matmul: cuBLASLt has no algorithm for {} x {} x {}", sizes.m, sizes.n, sizes.k));
  }

  MatmulSizes sizes;
  Operation operation;
  Layout a, b, c;
  float beta;
  cublasLtMatmulHeuristicResult_t choice{};
};

Matmul::Matmul(const MatmulSpec& spec) {
  check(spec);
  impl_ = std::make_unique<Impl>(spec);
}
Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;

std::size_t Matmul::scratch_bytes() const {
  return workspace_bytes;
}

void Matmul::run(Space& space, const void* a, const void* b, void* c, void* scratch) {
  if (!is_aligned(a) || !is_aligned(b) || !is_aligned(c))
    throw std::logic_error(
        "matmul: operand not aligned to 16 bytes (cuBLASLt was asked for such algorithms)");
  const float one = 1;
  WEFT_CHECK_CUBLASLT(cublasLtMatmul(handle(), impl_->operation.value, &one, b, impl_->b.value, a,
                                     impl_->a.value, &impl_->beta, c, impl_->c.value, c, impl_->c.value,
                                     &impl_->choice.algo, scratch, workspace_bytes,
                                     static_cast<cudaStream_t>(native_stream(space))));
}

}  // namespace weft::kernels
