// The matmul on CUDA, by cuBLASLt.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/check.hpp"
#include "kernels/matmul.hpp"
#include "kernels/matmul_spec.hpp"

namespace weft::kernels {

namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // the size that NVIDIA advises for Hopper
/// The alignments that algorithms tell apart. Units, activations and most views have the largest. A view at
/// an odd offset of its unit, or rows of an odd length, may only have that of an element.
constexpr std::array<std::uint32_t, 4> alignments{16, 8, 4, 2};

void check_status(cublasStatus_t status, const char* expression) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ExitCode::environment,
                fmt::format("{} failed ({})", expression, cublasLtGetStatusString(status)));
}
#define WEFT_CHECK_CUBLASLT(call) check_status((call), #call)

/// The handle of the process, which has one device.
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

struct MatmulDescription {
  MatmulDescription(bool first_transposed, bool second_transposed) {
    // For fp32 operands this is fp32 arithmetic: TF32 and the bf16 emulation are compute types of their own.
    WEFT_CHECK_CUBLASLT(cublasLtMatmulDescCreate(&value, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, first_transposed);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second_transposed);
  }
  void set(cublasLtMatmulDescAttributes_t which, bool transposed) {
    const cublasOperation_t op = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    WEFT_CHECK_CUBLASLT(cublasLtMatmulDescSetAttribute(value, which, &op, sizeof op));
  }
  ~MatmulDescription() { cublasLtMatmulDescDestroy(value); }
  MatmulDescription(const MatmulDescription&) = delete;
  MatmulDescription& operator=(const MatmulDescription&) = delete;
  cublasLtMatmulDesc_t value = nullptr;
};

struct Preference {
  Preference(std::uint32_t alignment, std::uint32_t reductions) {
    WEFT_CHECK_CUBLASLT(cublasLtMatmulPreferenceCreate(&value));
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    for (auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(which, alignment);
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
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

/// The index of the largest of `alignments` that all three operands have.
std::size_t alignment_of(const void* a, const void* b, const void* c) {
  const std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
                              reinterpret_cast<std::uintptr_t>(c);
  const auto* const found = std::find_if(alignments.begin(), alignments.end() - 1,
                                         [bits](std::uint32_t alignment) { return bits % alignment == 0; });
  return static_cast<std::size_t>(found - alignments.begin());
}

}  // namespace

bool bits_depend_on_threads(DType /*type*/, F32Products /*f32*/) {
  return false;
}

std::string_view product_method(DType /*type*/, F32Products /*f32*/) {
  return "cuBLASLt";
}

unsigned product_instructions() {
  return 0;
}

std::size_t product_buffer_bytes(DType /*type*/, F32Products /*f32*/) {
  return 0;  // the device's memory is asked for as scratch
}

/// Computes c^T = B^T A^T: what is row-major for us is, for cuBLASLt, the transpose in column-major order,
/// and the operands change places.
struct Matmul::Impl {
  explicit Impl(const MatmulSpec& spec)
      : type(spec.type),
        sizes(sizes_of(spec)),
        description(sizes.b_transposed, sizes.a_transposed),
        a(spec.type, sizes.a_transposed ? sizes.k : sizes.m, sizes.a_transposed ? sizes.m : sizes.k),
        b(spec.type, sizes.b_transposed ? sizes.n : sizes.k, sizes.b_transposed ? sizes.k : sizes.n),
        c(spec.result, sizes.m, sizes.n),
        beta(spec.add ? 1.0F : 0.0F) {
    algorithm(0);
  }

  /// The heuristics' first choice for operands of this alignment. It depends only on shape, type, alignment
  /// and device, so all ranks and all runs take the same one.
  const cublasLtMatmulAlgo_t& algorithm(std::size_t alignment) {
    auto& choice = choices[alignment];
    // Split sums are added from the workspace in a fixed order. The in-place scheme would add them as blocks
    // finish, so a shape for which the library has nothing else gets no split sums at all.
    for (const std::uint32_t reductions : {std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
                                           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE}}) {
      if (choice) break;
      const Preference preference(alignments[alignment], reductions);
      cublasLtMatmulHeuristicResult_t result{};
      int found = 0;
      const cublasStatus_t status =
          cublasLtMatmulAlgoGetHeuristic(handle(), description.value, b.value, a.value, c.value, c.value,
                                         preference.value, 1, &result, &found);
      if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_status(status, "cublasLtMatmulAlgoGetHeuristic");
      if (found > 0) choice = result.algo;
    }
    if (!choice)
      throw Error(
          ExitCode::environment,
          fmt::format(
              "matmul: cuBLASLt has no algorithm for {} x {} x {} aligned to {} bytes (operand types {})",
              sizes.m, sizes.n, sizes.k, alignments[alignment], name_of(type)));
    return *choice;
  }

  DType type;
  MatmulSizes sizes;
  MatmulDescription description;
  Layout a, b, c;
  float beta;
  /// The choice for 16 bytes is made with the matmul, and another one in the first run that wants it.
  std::array<std::optional<cublasLtMatmulAlgo_t>, alignments.size()> choices;
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
  const cublasLtMatmulAlgo_t& algorithm = impl_->algorithm(alignment_of(a, b, c));
  const float one = 1;
  WEFT_CHECK_CUBLASLT(cublasLtMatmul(handle(), impl_->description.value, &one, b, impl_->b.value, a,
                                     impl_->a.value, &impl_->beta, c, impl_->c.value, c, impl_->c.value,
                                     &algorithm, scratch, workspace_bytes,
                                     static_cast<cudaStream_t>(native_stream(space))));
}

}  // namespace weft::kernels
