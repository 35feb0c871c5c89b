// The matmul on CUDA, by cuBLASLt.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <sstream>
#include <type_traits>

#include "base/align.hpp"
#include "base/check.hpp"
#include "kernels/float8.hpp"
#include "kernels/gpu_scratch.hpp"
#include "kernels/matmul.hpp"
#include "kernels/matmul_spec.hpp"
#include "kernels/narrow_product.hpp"

namespace weft::kernels {

namespace {

constexpr std::size_t workspace_bytes = gpu::product_bytes;
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
  switch (t) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::e4m3: return CUDA_R_8F_E4M3;
    case DType::e5m2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_32F;
  }
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
    set(CUBLASLT_MATMUL_DESC_TRANSA, first_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, second_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  }
  template <class V>
  void set(cublasLtMatmulDescAttributes_t which, V v) {
    WEFT_CHECK_CUBLASLT(cublasLtMatmulDescSetAttribute(value, which, &v, sizeof v));
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

/// At most `most` algorithms for operands of this alignment in bytes, the library's first choice first.
///
/// Split sums are added from the workspace in a fixed order. The in-place scheme would add them as blocks
/// finish, so a shape for which the library has nothing else gets no split sums at all.
std::vector<cublasLtMatmulAlgo_t> offered_for(const MatmulDescription& description, const Layout& a,
                                              const Layout& b, const Layout& c, std::uint32_t alignment,
                                              int most) {
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  for (const std::uint32_t reductions : {std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
                                         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE}}) {
    const Preference preference(alignment, reductions);
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle(), description.value, a.value, b.value, c.value, c.value,
                                       preference.value, most, results.data(), &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_status(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<cublasLtMatmulAlgo_t> good;
    for (int i = 0; i < found; ++i)
      if (const auto& result = results[static_cast<std::size_t>(i)]; result.state == CUBLAS_STATUS_SUCCESS)
        good.push_back(result.algo);
    if (!good.empty()) return good;
  }
  return {};
}

/// The index of the largest of `alignments` that all three operands have.
std::size_t alignment_of(const void* a, const void* b, const void* c) {
  const std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
                              reinterpret_cast<std::uintptr_t>(c);
  const auto* const found = std::find_if(alignments.begin(), alignments.end() - 1,
                                         [bits](std::uint32_t alignment) { return bits % alignment == 0; });
  return static_cast<std::size_t>(found - alignments.begin());
}

constexpr std::size_t words = std::extent_v<decltype(cublasLtMatmulAlgo_t::data)>;

/// "cuBLASLt 130200 " and the algorithm's words in hexadecimal digits. The library promises to understand
/// them again, in the same version.
std::string to_text(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text = fmt::format("cuBLASLt {}", cublasLtGetVersion());
  for (const std::uint64_t word : algorithm.data) text += fmt::format(" {:x}", word);
  return text;
}

/// Nothing where the text is of another library or version.
std::optional<cublasLtMatmulAlgo_t> from_text(const std::string& text) {
  std::istringstream in(text);
  std::string library;
  std::size_t version = 0;
  in >> library >> version >> std::hex;
  cublasLtMatmulAlgo_t algorithm{};
  for (std::size_t i = 0; i < words; ++i) in >> algorithm.data[i];
  if (!in || library != "cuBLASLt" || version != cublasLtGetVersion()) return std::nullopt;
  return algorithm;
}

std::vector<std::string> texts_of(const std::vector<cublasLtMatmulAlgo_t>& algorithms) {
  std::vector<std::string> texts;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) texts.push_back(to_text(algorithm));
  return texts;
}

/// Lets `choice` be the algorithm that the map has for the product of this name, if it has one. Returns
/// false, and leaves the choice as it is, where the library or the device does not know that algorithm for
/// it.
bool take_named(const ProductAlgorithms& algorithms, const std::string& product,
                const MatmulDescription& description, const Layout& a, const Layout& b, const Layout& c,
                std::optional<cublasLtMatmulAlgo_t>& choice) {
  const auto named = algorithms.find(product);
  if (named == algorithms.end()) return true;
  const auto algorithm = from_text(named->second);
  if (!algorithm) return false;
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle(), description.value, a.value, b.value,
                                                        c.value, c.value, &*algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > workspace_bytes) return false;
  choice = algorithm;
  return true;
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

  /// At most `most` algorithms for operands of this alignment, the library's first choice first.
  std::vector<cublasLtMatmulAlgo_t> offered(std::size_t alignment, int most) const {
    return offered_for(description, b, a, c, alignments[alignment], most);
  }

  /// The heuristics' first choice for operands of this alignment, where take() has not made another. It
  /// depends only on shape, type, alignment and device, so all ranks and all runs take the same one.
  const cublasLtMatmulAlgo_t& algorithm(std::size_t alignment) {
    auto& choice = choices[alignment];
    if (choice) return *choice;
    const std::vector<cublasLtMatmulAlgo_t> first = offered(alignment, 1);
    if (first.empty())
      throw Error(
          ExitCode::environment,
          fmt::format(
              "matmul: cuBLASLt has no algorithm for {} x {} x {} aligned to {} bytes (operand types {})",
              sizes.m, sizes.n, sizes.k, alignments[alignment], name_of(type)));
    return choice.emplace(first.front());
  }

  DType type;
  MatmulSizes sizes;
  MatmulDescription description;
  Layout a, b, c;
  float beta;
  /// The choice for 16 bytes is made with the matmul, and another one in the first run that wants it.
  std::array<std::optional<cublasLtMatmulAlgo_t>, alignments.size()> choices;
};

Matmul::Matmul(const MatmulSpec& spec) : spec_(spec) {
  check(spec);
  impl_ = std::make_unique<Impl>(spec);
}
Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;

std::vector<std::string> Matmul::algorithms(int most) const {
  return texts_of(impl_->offered(0, most));
}

std::string Matmul::algorithm() const {
  return to_text(impl_->algorithm(0));
}

bool Matmul::take(const ProductAlgorithms& algorithms) {
  return take_named(algorithms, name_of(spec_), impl_->description, impl_->b, impl_->a, impl_->c,
                    impl_->choices[0]);
}

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

namespace {

/// A product in Float8 by cuBLASLt: both operands K-major, as Hopper wants them. So a weight is transposed
/// before its rows are summed over. Where rows have scales of their own, the weight's columns have, too.
class CublasltNarrowProduct final : public Float8Matmul {
 public:
  /// Whether the library has an algorithm for it.
  bool found() const { return algorithm_.has_value(); }

  explicit CublasltNarrowProduct(const Float8MatmulSpec& spec)
      : Float8Matmul(spec),
        transposes_(spec.shape.form == MatmulForm::dgrad),
        rowwise_(spec.scales == Float8Scales::rowwise),
        scratch_bytes_(gpu::float8_product_bytes(spec.shape, spec.scales)),
        rows_(spec.shape.rows),
        summed_(transposes_ ? spec.shape.out : spec.shape.in),
        width_(transposes_ ? spec.shape.in : spec.shape.out),
        description_(/*first_transposed=*/true, /*second_transposed=*/false),
        w_(DType::e4m3, width_, summed_),
        x_(spec.format, rows_, summed_),
        y_(DType::bf16, rows_, width_),
        beta_(spec.shape.add ? 1.0F : 0.0F) {
#if CUBLAS_VERSION >= 120900  // which brought scales for each row
    if (rowwise_)
      for (const auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
        description_.set(which, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
#else
    if (rowwise_) return;
#endif
    // The library chooses among kernels that scale only where it sees that there are scales, and refuses
    // rows' scales without them. It does not read them when it chooses; run() says where they are.
    for (const auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
      description_.set(which, reinterpret_cast<const void*>(std::uintptr_t{256}));
    // Rows of such a width begin at multiples of 16 bytes.
    if (!gpu::takes_float8(spec.shape)) return;
    const auto first = offered(1);
    if (!first.empty()) algorithm_ = first.front();
  }

  std::vector<std::string> algorithms(int most) const override {
    return texts_of(offered(most));
  }

  std::string algorithm() const override {
    return to_text(*algorithm_);
  }

  bool take(const ProductAlgorithms& algorithms) override {
    return take_named(algorithms, name_of(spec()), description_, w_, x_, y_, algorithm_);
  }

  std::size_t scratch_bytes() const override {
    return scratch_bytes_;
  }

  void run(Space& space, const void* x8, const float* scale, const void* w8, const float* scale_of_w, void* y,
           void* scratch) override {
    auto* const workspace = static_cast<std::byte*>(scratch);
    auto* const scales = reinterpret_cast<float*>(workspace + workspace_bytes);
    if (rowwise_) {
      repeat(space, width_, scale_of_w, scales);
      scale_of_w = scales;
    }
    if (transposes_) {
      std::byte* const transposed = workspace + workspace_bytes + scales_bytes();
      transpose_bytes(space, summed_, width_, w8, transposed);
      w8 = transposed;
    }
    if (alignment_of(x8, w8, y) != 0)
      throw std::logic_error("an operand in Float8 is not aligned to 16 bytes");
    description_.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(scale_of_w));
    description_.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(scale));
    const float one = 1;
    WEFT_CHECK_CUBLASLT(cublasLtMatmul(handle(), description_.value, &one, w8, w_.value, x8, x_.value, &beta_,
                                       y, y_.value, y, y_.value, &*algorithm_, workspace, workspace_bytes,
                                       static_cast<cudaStream_t>(native_stream(space))));
  }

 private:
  /// At most `most` algorithms for operands that are all aligned to 16 bytes, the first choice first.
  std::vector<cublasLtMatmulAlgo_t> offered(int most) const {
    return offered_for(description_, w_, x_, y_, /*alignment=*/16, most);
  }

  std::size_t scales_bytes() const {
    return rowwise_ ? aligned(static_cast<std::size_t>(width_) * sizeof(float)) : 0;
  }

  bool transposes_, rowwise_;
  std::size_t scratch_bytes_;
  std::int64_t rows_, summed_, width_;
  MatmulDescription description_;
  Layout w_, x_, y_;
  float beta_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;
};

}  // namespace

std::unique_ptr<Float8Matmul> make_narrow_product(const MatmulSpec& spec, DType format, Float8Scales scales) {
  auto product = std::make_unique<CublasltNarrowProduct>(Float8MatmulSpec{spec, format, scales});
  if (product->found()) return product;
  return nullptr;
}

}  // namespace weft::kernels
