// Weft's parameters beside those of Hugging Face's LlamaForCausalLM.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::hf {

/// The tensor that is a parameter of Weft, "layers.3.attn.wq", in Hugging Face's Llama. Shapes are equal.
std::string tensor_name(const std::string& path);

/// Whether the rows of a parameter stand in another order there: wq and wk.
bool is_rotated(const std::string& path);

/// Contiguous elements of a source, `count` from `from` on, that come to `at` of a destination.
struct Run {
  std::int64_t from = 0;
  std::int64_t at = 0;
  std::int64_t count = 0;
};

/// The order of the destination's rows. `transformers` turns the pairs (i, i + D / 2) of a head of D
/// elements, Weft, as Meta, the pairs (2 i, 2 i + 1): row 2 i + j of a head in Weft is row i + j D / 2 there.
enum class RowOrder : std::uint8_t { weft, transformers };

/// What fills elements [begin, begin + count) of a rotated matrix of `columns` columns from the same matrix
/// in the other order; `at` counts from `begin`.
std::vector<Run> rotated_runs(RowOrder destination, std::int64_t head_dim, std::int64_t columns,
                              std::int64_t begin, std::int64_t count);

}  // namespace weft::hf
