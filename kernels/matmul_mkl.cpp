#include "kernels/matmul_mkl.hpp"

#include <mkl_cblas.h>
#include <mkl_service.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "base/limits.hpp"

namespace weft::kernels::mkl {

namespace {

bool has_avx512() {
  constexpr auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

/// Sets MKL up, before its first product; this holds for the whole process.
bool prepare() {
  mkl_set_env_mode(1);  // ignores the environment, which could ask for bf16 or TF32 inside fp32
  mkl_set_dynamic(0);   // uses as many threads as it is told
  return mkl_cbwr_set(MKL_CBWR_AVX512 | MKL_CBWR_STRICT) == MKL_CBWR_SUCCESS;
}

MKL_INT narrow(std::int64_t size) {
  if (size > limits::most_indices)
    throw std::logic_error(fmt::format("matmul: MKL takes sizes below 2^31, not {}", size));
  return static_cast<MKL_INT>(size);
}

}  // namespace

bool serves(DType t) {
  static const bool ready = __builtin_cpu_is("intel") != 0 && has_avx512() && prepare();
  return t == DType::f32 && ready;
}

void Product::run(const void* a, const void* b, void* c) const {
  const MKL_INT m = narrow(sizes.m), n = narrow(sizes.n), k = narrow(sizes.k);
  mkl_set_num_threads_local(threads);
  cblas_sgemm(CblasRowMajor, sizes.a_transposed ? CblasTrans : CblasNoTrans,
              sizes.b_transposed ? CblasTrans : CblasNoTrans, m, n, k, 1.0F, static_cast<const float*>(a),
              sizes.a_transposed ? m : k, static_cast<const float*>(b), sizes.b_transposed ? k : n,
              add ? 1.0F : 0.0F, static_cast<float*>(c), n);
}

}  // namespace weft::kernels::mkl
