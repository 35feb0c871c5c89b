#include "hf/names.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace weft::hf {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

constexpr std::array<Names, 3> global{{{"embed.table", "model.embed_tokens.weight"},
                                       {"head.norm", "model.norm.weight"},
                                       {"head.weight", "lm_head.weight"}}};
constexpr std::array<Names, 9> of_layer{{{"attn.norm", "input_layernorm"},
                                         {"attn.wq", "self_attn.q_proj"},
                                         {"attn.wk", "self_attn.k_proj"},
                                         {"attn.wv", "self_attn.v_proj"},
                                         {"attn.wo", "self_attn.o_proj"},
                                         {"ffn.norm", "post_attention_layernorm"},
                                         {"ffn.w1", "mlp.gate_proj"},
                                         {"ffn.w3", "mlp.up_proj"},
                                         {"ffn.w2", "mlp.down_proj"}}};

}  // namespace

std::string tensor_name(const std::string& path) {
  for (const auto& [ours, theirs] : global)
    if (path == ours) return std::string(theirs);
  for (const auto& [ours, theirs] : of_layer)
    if (path.starts_with("layers.") && path.ends_with(std::string(".").append(ours)))
      return fmt::format("model.{}{}.weight", path.substr(0, path.size() - ours.size()), theirs);
  throw std::logic_error("no name for parameter " + path);
}

bool is_rotated(const std::string& path) {
  return path.ends_with(".attn.wq") || path.ends_with(".attn.wk");
}

std::vector<Run> rotated_runs(RowOrder destination, std::int64_t head_dim, std::int64_t columns,
                              std::int64_t begin, std::int64_t count) {
  std::vector<Run> runs;
  for (std::int64_t at = begin; at < begin + count;) {
    const std::int64_t row = at / columns, column = at % columns;
    const std::int64_t n = std::min(columns - column, begin + count - at);
    const std::int64_t first = row / head_dim * head_dim, r = row - first, half = head_dim / 2;
    const std::int64_t source =
        first + (destination == RowOrder::weft ? r / 2 + r % 2 * half : r % half * 2 + r / half);
    runs.push_back({source * columns + column, at - begin, n});
    at += n;
  }
  return runs;
}

}  // namespace weft::hf
