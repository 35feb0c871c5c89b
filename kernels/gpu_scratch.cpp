#include "kernels/gpu_scratch.hpp"

#include <algorithm>

#include "base/align.hpp"
#include "kernels/attention_backends.hpp"
#include "kernels/attention_parts.hpp"

namespace weft::kernels::gpu {
namespace {

constexpr std::size_t least_workspace = 256;

/// What cuDNN asks for on Hopper, by its own compiler (tests/fakecuda/cudnn_plans_test.cpp): a number for
/// each row; where sums are deterministic the gradients of all scores in bf16, else dq in fp32; and where
/// heads share keys, each head's gradients of keys and values. Ranks that share sequences all ask for as much
/// as the first place, whose queries see the most keys.
std::size_t fused_bytes(const AttentionShape& s) {
  const auto rounded_up = [](std::int64_t tokens, std::int64_t tile) {
    return (tokens + tile - 1) / tile * tile;
  };
  const std::int64_t queries = s.queries(), keys = s.seq;
  const std::int64_t row_sums = 4 * queries,
                     scores = s.deterministic ? 2 * rounded_up(queries, 64) * rounded_up(keys, 128)
                                              : 4 * queries * s.head_dim,
                     own_keys = s.heads > s.kv_heads ? 4 * keys * s.head_dim : 0;
  return least_workspace + static_cast<std::size_t>(s.batch * s.heads * (row_sums + scores + own_keys));
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

std::size_t attention_bytes(DType t, bool documents) {
  return t == DType::bf16 && !documents ? least_workspace : 0;
}

std::size_t attention_grad_bytes(const AttentionShape& shape, DType t, bool documents) {
  const std::size_t by_team = team::attention_grad_scratch_bytes(shape, t);
  if (t != DType::bf16 || documents || !has_whole_sections(shape)) return by_team;
  const AttentionShape part = part_within(shape, most_attention_bytes, fused_bytes);
  return std::max(by_team, backward_scratch_bytes(part, shape, fused_bytes(part)));
}

}  // namespace weft::kernels::gpu
