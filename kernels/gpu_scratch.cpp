#include "kernels/gpu_scratch.hpp"

#include <algorithm>

#include "base/align.hpp"
#include "kernels/attention_backends.hpp"
#include "kernels/attention_parts.hpp"

namespace weft::kernels::gpu {
namespace {

/// What cuDNN asks for: where its sums are deterministic, the gradients of all scores, in bf16, of queries
/// and keys of whole tiles and one more; else dq in fp32. Ranks that share sequences all ask for as much as
/// the first place, whose queries see the most keys.
std::size_t fused_bytes(const AttentionShape& s) {
  const auto tiled = [](std::int64_t tokens) {
    constexpr std::int64_t tile = 128;
    return (tokens / tile + 1) * tile;
  };
  return static_cast<std::size_t>(s.batch * s.heads) *
         static_cast<std::size_t>(s.deterministic ? 2 * tiled(s.queries()) * tiled(s.seq)
                                                  : 4 * s.queries() * s.head_dim);
}

}  // namespace

std::size_t float8_product_bytes(const MatmulSpec& spec, Float8Scales scales) {
  const bool transposes = spec.form == MatmulForm::dgrad;
  const auto width = static_cast<std::size_t>(transposes ? spec.in : spec.out);
  return product_bytes + (scales == Float8Scales::rowwise ? aligned(width * sizeof(float)) : 0) +
         (transposes ? static_cast<std::size_t>(spec.in * spec.out) : 0);
}

bool takes_float8(const MatmulSpec& spec) {
  return spec.in % 16 == 0 && spec.out % 16 == 0;
}

std::size_t attention_grad_bytes(const AttentionShape& shape, DType t, bool documents) {
  const std::size_t by_team = team::attention_grad_scratch_bytes(shape, t);
  if (t != DType::bf16 || documents) return by_team;
  const AttentionShape part = part_within(shape, most_attention_bytes, fused_bytes);
  return std::max(by_team, backward_scratch_bytes(part, shape, fused_bytes(part)));
}

}  // namespace weft::kernels::gpu
