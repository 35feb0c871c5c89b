// The kernels once more, slow and readable: plain loops in double, as the papers write them. PyTorch checks
// these functions, and these check the kernels. Arrays are row-major with the layouts of the kernels'
// headers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/matmul.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"

namespace weft::kernels::reference {

using Array = std::vector<double>;
using Tokens = std::vector<std::int32_t>;

Array embedding(EmbeddingShape shape, const Tokens& tokens, const Array& table);
Array embedding_grad(EmbeddingShape shape, const Tokens& tokens, const Array& dout);

struct RmsNormResult {
  Array y, rstd;
};
RmsNormResult rms_norm(RowShape shape, const Array& x, const Array& w, double eps);
struct RmsNormGrads {
  Array dx, dw;
};
RmsNormGrads rms_norm_grad(RowShape shape, const Array& x, const Array& w, double eps, const Array& dy);

/// `table` is the one that fill_rope_table makes.
Array rope(RopeShape shape, const Array& x, const Tokens& positions, const Array& table,
           RopeDirection direction);

struct AttentionResult {
  Array o, lse;
};
/// `positions` is empty without documents.
AttentionResult attention(AttentionShape shape, const Array& q, const Array& k, const Array& v,
                          const Tokens& positions = {});
struct AttentionGrads {
  Array dq, dk, dv;
};
/// `o` is the forward's output as it was stored: its rounding is part of the result.
AttentionGrads attention_grad(AttentionShape shape, const Array& q, const Array& k, const Array& v,
                              const Array& o, const Array& dout, const Tokens& positions = {});

Array swiglu(const Array& gate, const Array& up);
struct SwigluGrads {
  Array dgate, dup;
};
SwigluGrads swiglu_grad(const Array& gate, const Array& up, const Array& dout);

struct CrossEntropyResult {
  Array lse;
  double loss = 0;  ///< sum over valid rows
  double count = 0;
};
CrossEntropyResult cross_entropy(LossShape shape, const Array& logits, const Tokens& targets);
Array cross_entropy_grad(LossShape shape, const Array& logits, const Tokens& targets);

/// The operands are those of Matmul::run.
Array matmul(const MatmulSpec& spec, const Array& a, const Array& b);

struct AdamWState {
  Array param, exp_avg, exp_avg_sq;
};
struct AdamWSettings {
  double lr, beta1, beta2, eps, weight_decay;
};
/// Step `t` (from one) of AdamW as its paper and PyTorch write it.
void adamw(AdamWState& state, const AdamWSettings& settings, int t, const Array& grad);

}  // namespace weft::kernels::reference
