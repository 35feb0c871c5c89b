// cuBLASLt: products computed from the descriptors, as they are said there: column-major, with leading
// dimensions and transposes. An algorithm remembers the product that it was chosen for, and the alignment
// that its heuristic was promised.
#include <cublasLt.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/dtype.hpp"
#include "fakecuda/device.hpp"

double fakecuda::largest_product() {
  static const char* const text = std::getenv("FAKECUDA_LARGEST_PRODUCT");
  return text != nullptr ? std::atof(text) : std::numeric_limits<double>::infinity();
}

namespace {

using fakecuda::fail;

struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t ld;
};
struct Description {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtMatmulMatrixScale_t mode_a = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, mode_b = mode_a;
  const float *scale_a = nullptr, *scale_b = nullptr;
};
struct Preference {
  std::size_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // the library's own defaults
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};
enum class Scales : std::uint8_t { none, one, by_row };
struct Algorithm {
  std::uint32_t magic;
  std::uint32_t alignment[4];
  std::uint8_t number;          ///< its place among those that the heuristics offered
  Scales scales;                ///< those that there were when it was chosen
  std::uint8_t type_a, type_b;  ///< cudaDataType of the operands
  std::size_t workspace;
  std::uint64_t m, n, k;
};
constexpr std::uint32_t magic = 0x77656674;

/// What stands behind a pointer of the library's.
template <class T, class Opaque>
T& as(Opaque* opaque) {
  return *reinterpret_cast<T*>(opaque);
}

bool is_float8(cudaDataType type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}
std::size_t size_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : is_float8(type) ? 1 : 2;
}
std::size_t bytes_of(const Layout& l) {
  return ((l.columns - 1) * static_cast<std::size_t>(l.ld) + l.rows) * size_of(l.type);
}

float load(const void* p, cudaDataType type, std::size_t i) {
  if (type == CUDA_R_8F_E4M3) return weft::to_float(static_cast<const weft::e4m3*>(p)[i]);
  if (type == CUDA_R_8F_E5M2) return weft::to_float(static_cast<const weft::e5m2*>(p)[i]);
  return type == CUDA_R_32F ? static_cast<const float*>(p)[i]
                            : weft::to_float(static_cast<const weft::bf16*>(p)[i]);
}
void store(void* p, cudaDataType type, std::size_t i, float x) {
  if (type == CUDA_R_32F)
    static_cast<float*>(p)[i] = x;
  else
    static_cast<weft::bf16*>(p)[i] = weft::to_bf16(x);
}

Scales scales_of(const Description& d) {
  if (d.scale_a == nullptr) return Scales::none;
  return d.mode_a == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F ? Scales::by_row : Scales::one;
}

/// Whether the algorithm was chosen for operands of these types and kind of scales.
bool is_for_operands(const Algorithm& algorithm, const Description& d, const Layout& a, const Layout& b) {
  return algorithm.type_a == a.type && algorithm.type_b == b.type && algorithm.scales == scales_of(d);
}

/// op(matrix) as rows of floats.
std::vector<float> rows_of(const void* p, const Layout& l, cublasOperation_t op) {
  std::vector<float> all(l.rows * l.columns);
  for (std::size_t c = 0; c < l.columns; ++c)
    for (std::size_t r = 0; r < l.rows; ++r)
      all[op == CUBLAS_OP_N ? r * l.columns + c : c * l.rows + r] =
          load(p, l.type, c * static_cast<std::size_t>(l.ld) + r);
  return all;
}

/// Seconds that a product takes beside its computing by the algorithm which the heuristics offer first: for
/// tests of who looks for a faster one.
double first_choice_seconds() {
  const char* const text = std::getenv("FAKECUDA_FIRST_CHOICE");
  return text != nullptr ? std::atof(text) : 0;
}

void multiply(const Description& d, const void* a, const Layout& la, const void* b, const Layout& lb,
              float alpha, float beta, const void* c, void* out, const Layout& lc) {
  const std::size_t m = lc.rows, n = lc.columns, k = d.a == CUBLAS_OP_N ? la.columns : la.rows;
  if (static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >
      fakecuda::largest_product()) {
    std::memset(out, 0xff, bytes_of(lc));
    return;
  }
  const std::vector<float> left = rows_of(a, la, d.a), right = rows_of(b, lb, d.b);
  std::vector<float> row(n);
  for (std::size_t i = 0; i < m; ++i) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (std::size_t p = 0; p < k; ++p) {
      const float x = left[i * k + p];
      const float* from = right.data() + p * n;
      for (std::size_t j = 0; j < n; ++j) row[j] += x * from[j];
    }
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t at = j * static_cast<std::size_t>(lc.ld) + i;
      const float before = beta != 0 ? beta * load(c, lc.type, at) : 0;
      const bool each = d.mode_a == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
      const float scale = d.scale_a == nullptr ? 1 : d.scale_a[each ? i : 0] * d.scale_b[each ? j : 0];
      store(out, lc.type, at, alpha * scale * row[j] + before);
    }
  }
}

bool aligned(const void* p, std::uint32_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(fakecuda::current_device()));
  fakecuda::count_object("handles of cuBLASLt", 1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  fakecuda::count_object("handles of cuBLASLt", -1);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "cuBLASLt's status of the preset fakecuda";
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
  if ((type != CUDA_R_32F && type != CUDA_R_16BF && !is_float8(type)) || ld < static_cast<std::int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, ld});
  fakecuda::count_object("layouts of cuBLASLt", 1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &as<Layout>(layout);
  fakecuda::count_object("layouts of cuBLASLt", -1);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description);
  fakecuda::count_object("descriptions of cuBLASLt", 1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &as<Description>(description);
  fakecuda::count_object("descriptions of cuBLASLt", -1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t which, const void* value,
                                              std::size_t bytes) {
  Description& d = as<Description>(description);
  const auto set = [&](auto& member) {
    if (bytes != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&member, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(d.a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(d.b);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE: return set(d.mode_a);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE: return set(d.mode_b);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return set(d.scale_a);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return set(d.scale_b);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  fakecuda::count_object("preferences of cuBLASLt", 1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &as<Preference>(preference);
  fakecuda::count_object("preferences of cuBLASLt", -1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, std::size_t bytes) {
  Preference& p = as<Preference>(preference);
  void* to = nullptr;
  std::size_t size = sizeof(std::uint32_t);
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: to = &p.workspace, size = sizeof p.workspace; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: to = &p.alignment[0]; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: to = &p.alignment[1]; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: to = &p.alignment[2]; break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: to = &p.alignment[3]; break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: to = &p.reductions; break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  const Layout &la = as<Layout>(a), &lb = as<Layout>(b), &lc = as<Layout>(c), &ld = as<Layout>(d);
  const Description& op = as<Description>(description);
  const Preference& p = as<Preference>(preference);
  *found = 0;
  const auto m = op.a == CUBLAS_OP_N ? la.rows : la.columns, k = op.a == CUBLAS_OP_N ? la.columns : la.rows;
  const auto k2 = op.b == CUBLAS_OP_N ? lb.rows : lb.columns, n = op.b == CUBLAS_OP_N ? lb.columns : lb.rows;
  if (wanted < 1 || k != k2 || lc.rows != m || lc.columns != n || ld.rows != m || ld.columns != n ||
      (la.type != lb.type && !is_float8(la.type)) || lc.type != ld.type)
    return CUBLAS_STATUS_INVALID_VALUE;
  // Hopper multiplies operands in Float8 only where both have the summed dimension innermost, where 16
  // divides it and the other, and where at most one of them is e5m2.
  if (is_float8(la.type) &&
      (op.a != CUBLAS_OP_T || op.b != CUBLAS_OP_N || !is_float8(lb.type) || op.mode_a != op.mode_b ||
       (op.mode_a != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F &&
        op.mode_a != CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F) ||
       k % 16 != 0 || m % 16 != 0 || ld.type != CUDA_R_16BF ||
       (la.type == CUDA_R_8F_E5M2 && lb.type == CUDA_R_8F_E5M2)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  // The library wants to see rows' scales, which it does not read here.
  if (op.mode_a == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F &&
      (op.scale_a == nullptr || op.scale_b == nullptr))
    return CUBLAS_STATUS_INVALID_VALUE;
  // An odd shape in bf16 has only what sums in place, as the library was seen to answer.
  if (p.reductions != CUBLASLT_REDUCTION_SCHEME_NONE && m % 2 != 0 && la.type == CUDA_R_16BF)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (fakecuda::is_to_fail("cublasLtMatmulAlgoGetHeuristic")) return CUBLAS_STATUS_SUCCESS;  // and found none
  *found = std::min(wanted, 3);
  for (int i = 0; i < *found; ++i) {
    // The first choice wants all that the preference allows, and the last one nothing.
    const std::size_t workspace = p.workspace / 2 * static_cast<std::size_t>(2 - i);
    const Algorithm algorithm{magic,
                              {p.alignment[0], p.alignment[1], p.alignment[2], p.alignment[3]},
                              static_cast<std::uint8_t>(i),
                              scales_of(op),
                              static_cast<std::uint8_t>(la.type),
                              static_cast<std::uint8_t>(lb.type),
                              workspace,
                              m,
                              n,
                              k};
    static_assert(sizeof algorithm <= sizeof results[i].algo);
    results[i] = {};
    std::memcpy(&results[i].algo, &algorithm, sizeof algorithm);
    results[i].workspaceSize = workspace;
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* chosen,
                                       cublasLtMatmulHeuristicResult_t* result) {
  Algorithm algorithm;
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  const Description& op = as<Description>(description);
  const Layout &la = as<Layout>(a), &ld = as<Layout>(d);
  const auto k = op.a == CUBLAS_OP_N ? la.columns : la.rows;
  if (algorithm.magic != magic || algorithm.m != ld.rows || algorithm.n != ld.columns || algorithm.k != k ||
      !is_for_operands(algorithm, op, la, as<Layout>(b)))
    return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = algorithm.workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t la, const void* b,
                              cublasLtMatrixLayout_t lb, const void* beta, const void* c,
                              cublasLtMatrixLayout_t lc, void* d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (fakecuda::is_to_fail("cublasLtMatmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
  Algorithm algorithm;
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  if (algorithm.magic != magic) fail("cublasLtMatmul: the algorithm is none of a heuristic's");
  if (*reinterpret_cast<int*>(handle) != fakecuda::current_device())
    fail("cublasLtMatmul: the handle belongs to another device");
  const Layout A = as<Layout>(la), B = as<Layout>(lb), C = as<Layout>(lc), D = as<Layout>(ld);
  fakecuda::refuse_host_memory("cublasLtMatmul", "A", a, bytes_of(A));
  fakecuda::refuse_host_memory("cublasLtMatmul", "B", b, bytes_of(B));
  fakecuda::refuse_host_memory("cublasLtMatmul", "C", c, bytes_of(C));
  fakecuda::refuse_host_memory("cublasLtMatmul", "D", d, bytes_of(D));
  fakecuda::refuse_host_memory("cublasLtMatmul", "the workspace", workspace, workspace_bytes);
  if (workspace_bytes < algorithm.workspace)
    fail("cublasLtMatmul: the workspace is smaller than the algorithm was promised");
  if (!aligned(workspace, 16)) fail("cublasLtMatmul: the workspace is not aligned to 16 bytes");
  const void* operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (!aligned(operands[i], algorithm.alignment[i]))
      fail(std::string("cublasLtMatmul: ") + "ABCD"[i] + " is not aligned to the " +
           std::to_string(algorithm.alignment[i]) + " bytes that the algorithm was promised");
  const Description op = as<Description>(description);
  const auto k = op.a == CUBLAS_OP_N ? A.columns : A.rows;
  if (!is_for_operands(algorithm, op, A, B))
    fail("cublasLtMatmul: the algorithm was chosen for operands of other types or with other scales");
  if (is_float8(A.type)) {
    const bool each = op.mode_a == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    fakecuda::refuse_host_memory("cublasLtMatmul", "the scales of A", op.scale_a,
                                 (each ? D.rows : 1) * sizeof(float));
    fakecuda::refuse_host_memory("cublasLtMatmul", "the scales of B", op.scale_b,
                                 (each ? D.columns : 1) * sizeof(float));
    if (each && (!aligned(op.scale_a, 16) || !aligned(op.scale_b, 16)))
      fail("cublasLtMatmul: the rows' scales are not aligned to 16 bytes");
  }
  if (algorithm.m != D.rows || algorithm.n != D.columns || algorithm.k != k)
    fail("cublasLtMatmul: the algorithm is that of another shape");
  if (C.type != D.type || C.ld != D.ld)
    fail("cublasLtMatmul: C and D have layouts that Weft does not ask for");
  const float factor = *static_cast<const float*>(alpha), rest = *static_cast<const float*>(beta);
  const double wait = algorithm.number == 0 ? first_choice_seconds() : 0;
  const cudaError_t error = fakecuda::enqueue_call(stream, "a product of cuBLASLt", [=] {
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    multiply(op, a, A, b, B, factor, rest, c, d, D);
    // Who keeps something there loses it. The whole of it would take longer than the product.
    std::memset(workspace, 0xff, std::min<std::size_t>(workspace_bytes, 65536));
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
