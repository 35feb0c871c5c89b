#include "unit/model/double_llama.hpp"

#include <cmath>

#include "kernels/reference.hpp"

namespace weft::test {
namespace {

namespace reference = kernels::reference;
using reference::Array;
using reference::Tokens;

class Forward {
 public:
  explicit Forward(const DoubleLlama& llama)
      : llama_(llama),
        spec_(llama.spec),
        rows_(llama.batch * llama.seq),
        angles_(angles()),
        positions_(static_cast<std::size_t>(rows_)) {
    for (std::int64_t row = 0; row < rows_; ++row)
      positions_[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(row % llama.seq);
  }

  Array logits(const Tokens& tokens) const {
    Array x = reference::embedding({rows_, spec_.vocab, spec_.dim}, tokens, weight("embed.table"));
    for (std::int64_t layer = 0; layer < spec_.layers; ++layer) {
      const std::string path = "layers." + std::to_string(layer);
      x = sum(x, attention(path + ".attn", x));
      x = sum(x, feed_forward(path + ".ffn", x));
    }
    return linear(norm(x, "head.norm"), spec_.tie_embeddings ? "embed.table" : "head.weight", spec_.dim,
                  spec_.vocab);
  }

 private:
  const Array& weight(const std::string& path) const { return llama_.weights.at(path); }

  /// cos and sin, by position and pair.
  Array angles() const {
    const std::int64_t pairs = spec_.head_dim() / 2;
    Array table;
    for (std::int64_t position = 0; position < llama_.seq; ++position)
      for (std::int64_t i = 0; i < pairs; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(llama_.rope_theta, -static_cast<double>(i) / static_cast<double>(pairs));
        table.insert(table.end(), {std::cos(angle), std::sin(angle)});
      }
    return table;
  }

  static Array sum(Array a, const Array& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }

  Array norm(const Array& x, const std::string& path) const {
    return reference::rms_norm({rows_, spec_.dim}, x, weight(path), spec_.norm_eps).y;
  }

  /// Multiplies x [rows, in] by the transpose of a weight [out, in].
  Array linear(const Array& x, const std::string& path, std::int64_t in, std::int64_t out) const {
    return reference::matmul({kernels::MatmulForm::forward, rows_, in, out, DType::f32, DType::f32}, x,
                             weight(path));
  }

  Array rope(const Array& x, std::int64_t heads) const {
    return reference::rope({rows_, heads, spec_.head_dim()}, x, positions_, angles_,
                           kernels::RopeDirection::forward);
  }

  Array attention(const std::string& path, const Array& x) const {
    const Array h = norm(x, path + ".norm");
    const Array q = rope(linear(h, path + ".wq", spec_.dim, spec_.dim), spec_.heads);
    const Array k = rope(linear(h, path + ".wk", spec_.dim, spec_.kv_dim()), spec_.kv_heads);
    const Array v = linear(h, path + ".wv", spec_.dim, spec_.kv_dim());
    const kernels::AttentionShape shape{llama_.batch, llama_.seq, spec_.heads, spec_.kv_heads,
                                        spec_.head_dim()};
    return linear(reference::attention(shape, q, k, v).o, path + ".wo", spec_.dim, spec_.dim);
  }

  Array feed_forward(const std::string& path, const Array& x) const {
    const Array h = norm(x, path + ".norm");
    const Array gate = linear(h, path + ".w1", spec_.dim, spec_.ffn),
                up = linear(h, path + ".w3", spec_.dim, spec_.ffn);
    return linear(reference::swiglu(gate, up), path + ".w2", spec_.ffn, spec_.dim);
  }

  const DoubleLlama& llama_;
  const model::Spec& spec_;
  std::int64_t rows_;
  Array angles_;
  Tokens positions_;
};

}  // namespace

double DoubleLlama::loss_sum(const std::vector<std::int32_t>& tokens,
                             const std::vector<std::int32_t>& targets) const {
  return reference::cross_entropy({batch * seq, spec.vocab}, Forward(*this).logits(tokens), targets).loss;
}

}  // namespace weft::test
