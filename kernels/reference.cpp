#include "kernels/reference.hpp"

#include <cmath>
#include <cstddef>
#include <limits>

namespace weft::kernels::reference {

namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}
Array zeros(std::int64_t n) {
  return Array(at(n), 0.0);
}
double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

/// A query of attention: number `i` of a run of sequence `b`, for head `h`.
struct Query {
  std::int64_t run, b, i, h;
};

template <class F>
void each_query(const AttentionShape& s, F f) {
  for (std::int64_t run = 0; run < s.runs(); ++run)
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t i = 0; i < s.queries(); ++i) f(Query{run, b, i, h});
}

/// The place of a query in [R, B, Tq, H, D].
std::int64_t query_row(const AttentionShape& s, const Query& q) {
  return (((q.run * s.batch + q.b) * s.queries() + q.i) * s.heads + q.h) * s.head_dim;
}
/// The place in [B, T, Hkv, D] of key `j` for a query.
std::int64_t key_row(const AttentionShape& s, const Query& q, std::int64_t j) {
  const std::int64_t kv = q.h / (s.heads / s.kv_heads);
  return ((q.b * s.seq + j) * s.kv_heads + kv) * s.head_dim;
}

/// The keys from `first` to `last` are those that a query sees.
struct Keys {
  std::int64_t first, last;
};
Keys keys_of(const AttentionShape& s, const Query& q, const Tokens& positions) {
  const std::int64_t last = s.first(q.run) + q.i;
  if (positions.empty()) return {0, last};
  return {last - positions[at((q.run * s.batch + q.b) * s.queries() + q.i)], last};
}

double dot(const Array& a, std::int64_t a_row, const Array& b, std::int64_t b_row, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[at(a_row + i)] * b[at(b_row + i)];
  return sum;
}

/// to[to_row + i] += factor * from[from_row + i]
void add_row(Array& to, std::int64_t to_row, double factor, const Array& from, std::int64_t from_row,
             std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[at(to_row + i)] += factor * from[at(from_row + i)];
}

/// The probabilities of the keys that one query sees, and the log-sum-exp of their scores.
struct Softmax {
  Array p;
  double lse = 0;
};

Softmax softmax_row(const AttentionShape& s, const Query& query, Keys keys, const Array& q, const Array& k) {
  Softmax result;
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = keys.first; j <= keys.last; ++j) {
    result.p.push_back(dot(q, query_row(s, query), k, key_row(s, query, j), s.head_dim) /
                       std::sqrt(static_cast<double>(s.head_dim)));
    largest = std::fmax(largest, result.p.back());
  }
  double sum = 0;
  for (double score : result.p) sum += std::exp(score - largest);
  result.lse = largest + std::log(sum);
  for (double& p : result.p) p = std::exp(p - result.lse);
  return result;
}

}  // namespace

Array embedding(EmbeddingShape shape, const Tokens& tokens, const Array& table) {
  Array out = zeros(shape.rows * shape.dim);
  for (std::int64_t r = 0; r < shape.rows; ++r)
    add_row(out, r * shape.dim, 1.0, table, tokens[at(r)] * shape.dim, shape.dim);
  return out;
}

Array embedding_grad(EmbeddingShape shape, const Tokens& tokens, const Array& dout) {
  Array dtable = zeros(shape.vocab * shape.dim);
  for (std::int64_t r = 0; r < shape.rows; ++r)
    add_row(dtable, tokens[at(r)] * shape.dim, 1.0, dout, r * shape.dim, shape.dim);
  return dtable;
}

RmsNormResult rms_norm(RowShape shape, const Array& x, const Array& w, double eps) {
  RmsNormResult result{zeros(shape.rows * shape.dim), zeros(shape.rows)};
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const std::int64_t row = r * shape.dim;
    const double mean_square = dot(x, row, x, row, shape.dim) / static_cast<double>(shape.dim);
    const double rstd = 1.0 / std::sqrt(mean_square + eps);
    result.rstd[at(r)] = rstd;
    for (std::int64_t c = 0; c < shape.dim; ++c) result.y[at(row + c)] = x[at(row + c)] * rstd * w[at(c)];
  }
  return result;
}

RmsNormGrads rms_norm_grad(RowShape shape, const Array& x, const Array& w, double eps, const Array& dy) {
  RmsNormGrads grads{zeros(shape.rows * shape.dim), zeros(shape.dim)};
  const Array rstd = rms_norm(shape, x, w, eps).rstd;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const std::int64_t row = r * shape.dim;
    const double s = rstd[at(r)];
    double weighted = 0;
    for (std::int64_t c = 0; c < shape.dim; ++c) {
      weighted += dy[at(row + c)] * w[at(c)] * x[at(row + c)];
      grads.dw[at(c)] += dy[at(row + c)] * x[at(row + c)] * s;
    }
    for (std::int64_t c = 0; c < shape.dim; ++c)
      grads.dx[at(row + c)] = s * dy[at(row + c)] * w[at(c)] -
                              s * s * s * x[at(row + c)] * weighted / static_cast<double>(shape.dim);
  }
  return grads;
}

Array rope(RopeShape shape, const Array& x, const Tokens& positions, const Array& table,
           RopeDirection direction) {
  Array out = zeros(shape.rows * shape.heads * shape.head_dim);
  for (std::int64_t r = 0; r < shape.rows; ++r)
    for (std::int64_t h = 0; h < shape.heads; ++h)
      for (std::int64_t i = 0; i < shape.head_dim / 2; ++i) {
        const std::int64_t angle = positions[at(r)] * shape.head_dim + 2 * i;
        const double cosine = table[at(angle)];
        const double sine =
            direction == RopeDirection::forward ? table[at(angle + 1)] : -table[at(angle + 1)];
        const std::size_t pair = at((r * shape.heads + h) * shape.head_dim + 2 * i);
        out[pair] = x[pair] * cosine - x[pair + 1] * sine;
        out[pair + 1] = x[pair] * sine + x[pair + 1] * cosine;
      }
  return out;
}

AttentionResult attention(AttentionShape s, const Array& q, const Array& k, const Array& v,
                          const Tokens& positions) {
  const std::int64_t rows = s.runs() * s.batch * s.queries() * s.heads;
  AttentionResult result{zeros(rows * s.head_dim), zeros(rows)};
  each_query(s, [&](const Query& query) {
    const Keys keys = keys_of(s, query, positions);
    const Softmax row = softmax_row(s, query, keys, q, k);
    result.lse[at(((query.run * s.batch + query.b) * s.heads + query.h) * s.queries() + query.i)] = row.lse;
    for (std::int64_t j = keys.first; j <= keys.last; ++j)
      add_row(result.o, query_row(s, query), row.p[at(j - keys.first)], v, key_row(s, query, j), s.head_dim);
  });
  return result;
}

AttentionGrads attention_grad(AttentionShape s, const Array& q, const Array& k, const Array& v,
                              const Array& o, const Array& dout, const Tokens& positions) {
  AttentionGrads grads{zeros(s.runs() * s.batch * s.queries() * s.heads * s.head_dim),
                       zeros(s.batch * s.seq * s.kv_heads * s.head_dim),
                       zeros(s.batch * s.seq * s.kv_heads * s.head_dim)};
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  each_query(s, [&](const Query& query) {
    const Keys keys = keys_of(s, query, positions);
    const Array p = softmax_row(s, query, keys, q, k).p;
    const std::int64_t row = query_row(s, query);
    const double delta = dot(dout, row, o, row, s.head_dim);  // equal to the sum of p * dp
    for (std::int64_t j = keys.first; j <= keys.last; ++j) {
      const std::int64_t key = key_row(s, query, j);
      const double probability = p[at(j - keys.first)], dp = dot(dout, row, v, key, s.head_dim);
      const double dscore = probability * (dp - delta) * scale;
      add_row(grads.dq, row, dscore, k, key, s.head_dim);
      add_row(grads.dk, key, dscore, q, row, s.head_dim);
      add_row(grads.dv, key, probability, dout, row, s.head_dim);
    }
  });
  return grads;
}

Array swiglu(const Array& gate, const Array& up) {
  Array out(gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
  return out;
}

SwigluGrads swiglu_grad(const Array& gate, const Array& up, const Array& dout) {
  SwigluGrads grads{Array(gate.size()), Array(gate.size())};
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double s = sigmoid(gate[i]);
    const double silu_derivative = s + gate[i] * s * (1.0 - s);
    grads.dgate[i] = dout[i] * up[i] * silu_derivative;
    grads.dup[i] = dout[i] * gate[i] * s;
  }
  return grads;
}

CrossEntropyResult cross_entropy(LossShape shape, const Array& logits, const Tokens& targets) {
  CrossEntropyResult result{zeros(shape.rows)};
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    if (targets[at(r)] < 0) continue;
    const std::int64_t row = r * shape.vocab;
    double largest = logits[at(row)];
    for (std::int64_t c = 0; c < shape.vocab; ++c) largest = std::fmax(largest, logits[at(row + c)]);
    double sum = 0;
    for (std::int64_t c = 0; c < shape.vocab; ++c) sum += std::exp(logits[at(row + c)] - largest);
    result.lse[at(r)] = largest + std::log(sum);
    result.loss += result.lse[at(r)] - logits[at(row + targets[at(r)])];
    result.count += 1;
  }
  return result;
}

Array cross_entropy_grad(LossShape shape, const Array& logits, const Tokens& targets) {
  Array grads = zeros(shape.rows * shape.vocab);
  const Array lse = cross_entropy(shape, logits, targets).lse;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    if (targets[at(r)] < 0) continue;
    for (std::int64_t c = 0; c < shape.vocab; ++c)
      grads[at(r * shape.vocab + c)] =
          std::exp(logits[at(r * shape.vocab + c)] - lse[at(r)]) - (c == targets[at(r)] ? 1.0 : 0.0);
  }
  return grads;
}

Array matmul(const MatmulSpec& s, const Array& a, const Array& b) {
  const bool wgrad = s.form == MatmulForm::wgrad;
  const bool forward = s.form == MatmulForm::forward;
  const std::int64_t m = wgrad ? s.out : s.rows;
  const std::int64_t n = forward ? s.out : s.in;
  const std::int64_t depth = wgrad ? s.rows : (forward ? s.in : s.out);
  Array c = zeros(m * n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t k = 0; k < depth; ++k) {
        const double left = wgrad ? a[at(k * m + i)] : a[at(i * depth + k)];
        const double right = forward ? b[at(j * depth + k)] : b[at(k * n + j)];
        c[at(i * n + j)] += left * right;
      }
  return c;
}

void adamw(AdamWState& state, const AdamWSettings& s, int t, const Array& grad) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    double& p = state.param[i];
    double& m = state.exp_avg[i];
    double& v = state.exp_avg_sq[i];
    p -= s.lr * s.weight_decay * p;
    m = s.beta1 * m + (1.0 - s.beta1) * grad[i];
    v = s.beta2 * v + (1.0 - s.beta2) * grad[i] * grad[i];
    const double corrected_m = m / (1.0 - std::pow(s.beta1, t));
    const double corrected_v = v / (1.0 - std::pow(s.beta2, t));
    p -= s.lr * corrected_m / (std::sqrt(corrected_v) + s.eps);
  }
}

}  // namespace weft::kernels::reference
