// Translates between Weft's parameters and those of Hugging Face's LlamaForCausalLM.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::hf {

/// The name in Hugging Face's Llama of a parameter of Weft, "layers.3.attn.wq". Their shapes are equal.
std::string tensor_name(const std::string& path);

/// Whether the rows of a parameter have another order in Hugging Face's Llama: those of wq and wk have.
bool is_rotated(const std::string& path);

/// Contiguous elements: `count` of them, from `from` on in the source, and from `at` on in the destination.
struct Run {
  std::int64_t from = 0;
  std::int64_t at = 0;
  std::int64_t count = 0;
};

/// The order of the destination's rows. `transformers` rotates the pairs (i, i + D / 2) of a head of D
/// elements; Weft, like Meta, rotates the pairs (2 i, 2 i + 1). So row 2 i + j of a head in Weft is row i + j
/// D / 2 there.
enum class RowOrder : std::uint8_t { weft, transformers };

/// The runs that fill elements [begin, begin + count) of a rotated matrix of `columns` columns from the same
/// matrix in the other order; `at` counts from `begin`.
std::vector<Run> rotated_runs(RowOrder destination, std::int64_t head_dim, std::int64_t columns,
                              std::int64_t begin, std::int64_t count);

}  // namespace weft::hf
