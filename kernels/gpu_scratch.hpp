// What kernels ask for as scratch in a build for NVIDIA's GPUs. Every build can say so: a plan for a GPU that
// is made on a host must not depend on the host's processor.
#pragma once

#include <cstddef>

#include "base/choices.hpp"
#include "kernels/attention.hpp"
#include "kernels/matmul.hpp"

namespace weft::kernels::gpu {

/// The workspace of each of cuBLASLt's products: the size that NVIDIA advises for Hopper.
inline constexpr std::size_t product_bytes = std::size_t{32} << 20;
/// That of a product in Float8, with the scales and the transposed weight that it keeps there. The library
/// has such a product where 16 divides both widths.
bool takes_float8(const MatmulSpec& spec);
std::size_t float8_product_bytes(const MatmulSpec& spec, Float8Scales scales);

/// The most scratch of a backward for which cuDNN keeps the gradients of all scores. 8 heads of 8192 tokens
/// fit, and fill a device.
inline constexpr std::size_t most_attention_bytes = std::size_t{1100} << 20;
/// Whether cuDNN takes the sections of sequences that ranks share: 64 tokens or a multiple.
constexpr bool has_whole_sections(const AttentionShape& shape) {
  return shape.context == 1 || shape.queries() % 64 == 0;
}
/// The scratch of attention and of attention_grad, as cuDNN 9.19 asks for it on Hopper.
std::size_t attention_bytes(DType t, bool documents);
std::size_t attention_grad_bytes(const AttentionShape& shape, DType t, bool documents);

}  // namespace weft::kernels::gpu
