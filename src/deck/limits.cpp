#include "deck/limits.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/check.hpp"
#include "base/limits.hpp"
#include "deck/schema.hpp"

namespace weft::deck {
namespace {

constexpr std::int64_t blocks_of_queries(std::int64_t seq) {
  return (seq + limits::attention_queries - 1) / limits::attention_queries;
}

/// More bytes than all values have that forward and backward of a token make, in fp32.
double token_bytes(const ModelDeck& m) {
  constexpr double layer = 256, head = 64;
  return layer * static_cast<double>(m.layers) * static_cast<double>(m.dim + m.ffn) +
         head * static_cast<double>(m.vocab);
}

/// The elements of an attention unit, without padding; the other two kinds of units follow.
std::int64_t attention_elements(const ModelDeck& m) {
  return m.dim + 2 * m.dim * (m.dim + m.dim / m.heads * m.kv_heads);
}
std::int64_t ffn_elements(const ModelDeck& m) {
  return m.dim + 3 * m.dim * m.ffn;
}
std::int64_t embedding_elements(const ModelDeck& m) {
  return m.dim + m.dim * m.vocab;
}

class Limits {
 public:
  Limits(const Deck& deck, Problems& problems) : deck_(deck), problems_(problems) {}

  void head_width() {
    const auto& m = deck_.model;
    const std::int64_t width = m.dim / m.heads, instead = nearest_heads(m);
    if (width > limits::most_head_dim)
      add("model.heads", "{} heads of model.dim = {} are {} wide (attention's kernels take at most {}){}",
          m.heads, m.dim, width, limits::most_head_dim,
          instead > 0 ? fmt::format("; did you mean {}?", instead) : std::string{});
  }

  void units() {
    const auto& m = deck_.model;
    unit("model.dim", m.dim, "a block's attention", attention_elements(m), largest_dim());
    unit("model.ffn", m.ffn, "a block's feed-forward", ffn_elements(m),
         (limits::most_unit_elements - m.dim) / (3 * m.dim));
    unit("model.vocab", m.vocab, "an embedding", embedding_elements(m),
         (limits::most_unit_elements - m.dim) / m.dim);
  }

  /// Checks a microbatch, and tells the first limit that it breaks.
  void microbatch() {
    const auto& d = deck_.data;
    const std::int64_t heads = deck_.model.heads, tokens = d.batch * d.seq;
    const std::int64_t blocks = heads * blocks_of_queries(d.seq);
    const double each = token_bytes(deck_.model), bytes = each * static_cast<double>(tokens);
    if (tokens > limits::most_indices)
      sequences(limits::most_indices / d.seq, limits::most_indices,
                fmt::format("{} tokens (kernels number at most {})", tokens, limits::most_indices));
    else if (d.batch * blocks > limits::most_indices)
      sequences(limits::most_indices / blocks, limits::most_indices / heads * limits::attention_queries,
                fmt::format("{} blocks of {} queries (one attention takes at most {})", d.batch * blocks,
                            limits::attention_queries, limits::most_indices));
    else if (bytes > limits::most_microbatch_bytes)
      sequences(
          static_cast<std::int64_t>(limits::most_microbatch_bytes / (each * static_cast<double>(d.seq))),
          static_cast<std::int64_t>(limits::most_microbatch_bytes / each),
          fmt::format("up to {:.2g} bytes (a plan counts at most {:.2g})", bytes,
                      limits::most_microbatch_bytes));
  }

 private:
  template <class... Args>
  void add(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    problems_.add(place_of(deck_, key), "", fmt::format(format, std::forward<Args>(args)...));
  }

  void unit(std::string_view key, std::int64_t value, std::string_view what, std::int64_t elements,
            std::int64_t most) {
    if (elements > limits::most_unit_elements)
      add(key, "{} gives {} {} parameters (their gradient's norm is summed over at most {}); use at most {}",
          value, what, elements, limits::most_unit_elements, most);
  }

  /// Advises a smaller microbatch or, if none is small enough, a shorter sequence.
  void sequences(std::int64_t most_batch, std::int64_t most_seq, const std::string& problem) {
    const auto& d = deck_.data;
    if (most_batch > 0)
      add("data.batch", "{} sequences of data.seq = {} are {}; use at most {}", d.batch, d.seq, problem,
          most_batch);
    else
      add("data.seq", "{} sequences of {} tokens are {}; use data.batch = 1 and at most {}", d.batch, d.seq,
          problem, most_seq);
  }

  /// The largest model.dim that works with the deck's heads and kv heads.
  std::int64_t largest_dim() const {
    const auto& m = deck_.model;
    const double share = static_cast<double>(m.kv_heads) / static_cast<double>(m.heads);
    const double bound = std::sqrt(static_cast<double>(limits::most_unit_elements) / (2 * (1 + share)));
    const std::int64_t grain = 2 * m.heads;
    ModelDeck smaller = m;
    for (smaller.dim = static_cast<std::int64_t>(bound) / grain * grain; smaller.dim > 0;
         smaller.dim -= grain)
      if (attention_elements(smaller) <= limits::most_unit_elements) break;
    return smaller.dim;
  }

  const Deck& deck_;
  Problems& problems_;
};

}  // namespace

std::int64_t nearest_heads(const ModelDeck& m) {
  if (m.dim % 2 != 0) return 0;
  const std::int64_t most = static_cast<std::int64_t>(find_key("model.heads")->range.high);
  std::int64_t best = 0;
  for (std::int64_t heads = 1; heads <= std::min(most, m.dim / 2); ++heads) {
    const bool works = m.dim / 2 % heads == 0 && m.dim / heads <= limits::most_head_dim;
    if (works && (best == 0 || std::abs(heads - m.heads) < std::abs(best - m.heads))) best = heads;
  }
  return best;
}

void check_limits(const Deck& deck, Problems& problems) {
  Limits limits(deck, problems);
  limits.head_width();
  limits.units();
  limits.microbatch();
}

void check_rounds(const Deck& deck, std::int64_t rounds, std::int64_t round_sequences) {
  const std::int64_t most = limits::most_layer_rounds / deck.model.layers;
  WEFT_VALIDATE(rounds <= most,
                "{}: {} sequences are {} rounds of {} layers (a plan numbers the values of at most {} "
                "layers over all rounds); use more ranks, a larger data.batch, or at most {}",
                place_of(deck, "data.global_batch"), deck.data.global_batch, rounds, deck.model.layers,
                limits::most_layer_rounds, most * round_sequences);
}

}  // namespace weft::deck
