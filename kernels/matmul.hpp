// Matrix products of a linear layer and of its gradients. Weights are [out, in], as in torch.nn.Linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// With x [rows, in], w [out, in], y [rows, out]:
enum class MatmulForm {
  forward,  ///< y = x w^T
  dgrad,    ///< dx = dy w
  wgrad     ///< dw = dy^T x
};

struct MatmulSpec {
  MatmulForm form;
  std::int64_t rows;  ///< B*T
  std::int64_t in;
  std::int64_t out;
  DType type;        ///< of both operands: f32 or bf16
  DType result;      ///< f32 or bf16; f32 when type is f32
  bool add = false;  ///< onto what stands in the result: summed in fp32, rounded once
  F32Products f32_products = F32Products::split;  ///< where the type is f32
};

/// Whether sums of this operand type may be split among host threads, so that bits depend on their number.
bool bits_depend_on_threads(DType type, F32Products f32_products);

/// Who computes products of this operand type in this process, for logs: "oneDNN", "MKL", "AMX, in three bf16
/// pieces", ...
std::string_view product_method(DType type, F32Products f32);

/// A number that stands for the instruction set which the library of products chooses: hosts on which it
/// differs get other bits. 0 where the device is not the host.
unsigned product_instructions();

/// About what a library's products with operands of this type hold for their own use, beside any scratch; of
/// the process, once it has computed.
std::size_t product_buffer_bytes(DType type, F32Products f32);

/// A matmul of one shape, prepared once for the number of threads at construction: on the host bf16_engine/
/// for bf16 where it can run, and for fp32 in pieces where there is AMX; MKL for fp32 where the build has it
/// (matmul_mkl.hpp), else oneDNN; cuBLASLt on CUDA. Sums are fp32; fp32 operands count with all their bits
/// (but for values near the ends of the range, bf16_engine/split_product.hpp). Where oneDNN has no bf16
/// (below AVX-512) operands are converted to fp32 in the scratch. cuBLASLt's algorithms are those of its
/// heuristics, one for each alignment of operands. Throws std::logic_error for other types or empty sizes.
class Matmul {
 public:
  explicit Matmul(const MatmulSpec& spec);
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  /// Bytes of device memory that run() needs, 256-byte aligned; may be 0.
  std::size_t scratch_bytes() const;

  /// (a, b, c) = (x, w, y), (dy, w, dx) or (dy, x, dw): dense, row-major, aligned to an element; to 16 bytes
  /// they are faster. Not thread-safe: one call at a time.
  void run(Space& space, const void* a, const void* b, void* c, void* scratch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::kernels
