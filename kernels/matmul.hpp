// Matrix products of a linear layer and of its gradients. Weights are [out, in], like those of
// torch.nn.Linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// Which product is made of x [rows, in], w [out, in] and y [rows, out]:
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
  DType type;    ///< type of both operands: f32 or bf16
  DType result;  ///< f32 or bf16; f32 when type is f32
  /// Adds to what stands in the result: summed in fp32, rounded once (by some of cuBLASLt's kernels twice).
  bool add = false;
  F32Products f32_products = F32Products::split;  ///< how products are computed where the type is f32
};

/// The product in words: "dgrad, 8192 rows, 4096 in, 14336 out, bf16 to f32, added".
std::string name_of(const MatmulSpec& spec);

/// What the device's library is to compute products by, instead of by its own first choice. The key is
/// name_of() of the product, the text the library's, which only the same version of it understands.
using ProductAlgorithms = std::map<std::string, std::string>;

/// Whether sums of this operand type may be split among host threads, so that their bits depend on the number
/// of threads.
bool bits_depend_on_threads(DType type, F32Products f32_products);

/// The name of whoever computes products of this operand type in this process, for logs: "oneDNN", "MKL",
/// "AMX, in three bf16 pieces", ...
std::string_view product_method(DType type, F32Products f32);

/// A number that stands for the instruction set which the library of products has chosen. Hosts on which it
/// differs get other bits. It is 0 where the device is not the host.
unsigned product_instructions();

/// About how many bytes a library's products with operands of this type hold for their own use, beside any
/// scratch. They are the process's, once it has computed.
std::size_t product_buffer_bytes(DType type, F32Products f32);

/// A matmul of one shape, prepared once for the number of threads that there are at construction. It runs
/// - on the host for bf16: by bf16_engine/ where that can run, else by oneDNN;
/// - on the host for fp32: by bf16_engine/ in pieces where there is AMX, by MKL where the build has it
///   (matmul_mkl.hpp), else by oneDNN;
/// - on CUDA: by cuBLASLt, with the algorithms of its heuristics, one for each alignment of operands, or
///   with that of take().
/// Sums are fp32. fp32 operands count with all their bits (but for values near the ends of the range,
/// bf16_engine/split_product.hpp). Where oneDNN has no bf16 (below AVX-512), operands are converted to fp32
/// in the scratch. Throws std::logic_error for other types or empty sizes.
class Matmul {
 public:
  explicit Matmul(const MatmulSpec& spec);
  ~Matmul();
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  const MatmulSpec& spec() const { return spec_; }
  /// The algorithms that the library offers for operands aligned to 16 bytes, at most `most`, its own first
  /// choice first. It has none to offer on hosts.
  std::vector<std::string> algorithms(int most) const;
  /// That by which it runs on such operands; empty on hosts.
  std::string algorithm() const;
  /// Takes the algorithm that the map has for this product, where operands are aligned to 16 bytes. Returns
  /// false, and keeps to what it has, where the library or the device does not know that algorithm. Other
  /// algorithms add in other orders: other bits. On hosts there is nothing to take.
  bool take(const ProductAlgorithms& algorithms);

  /// Bytes of device memory that run() needs, 256-byte aligned; may be 0.
  std::size_t scratch_bytes() const;

  /// Runs the product. (a, b, c) are (x, w, y), (dy, w, dx) or (dy, x, dw): dense, row-major, and aligned to
  /// an element; aligned to 16 bytes they are faster. Make one call at a time: it is not thread-safe.
  void run(Space& space, const void* a, const void* b, void* c, void* scratch);

 private:
  struct Impl;
  MatmulSpec spec_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::kernels
