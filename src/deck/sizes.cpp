// Computes what follows from a deck: parameters, microbatches, and the mesh.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "deck/deck.hpp"
#include "deck/limits.hpp"
#include "deck/schema.hpp"

namespace weft {

std::int64_t parameter_count(const ModelDeck& model) {
  const std::int64_t kv_dim = model.kv_heads * (model.dim / model.heads);
  const std::int64_t attention = 2 * model.dim * model.dim + 2 * model.dim * kv_dim;  // wq, wo, wk, wv
  const std::int64_t ffn = 3 * model.dim * model.ffn;                                 // w1, w2, w3
  const std::int64_t norms = 2 * model.dim;
  const std::int64_t embeddings = (model.tie_embeddings ? 1 : 2) * model.vocab * model.dim;
  return model.layers * (attention + ffn + norms) + model.dim + embeddings;
}

namespace {

/// The largest divisor of n up to `value`, and the smallest divisor from `value` on, or n where all are
/// smaller. Divisors come in pairs, so that the square root of n is as far as one has to look.
std::pair<std::int64_t, std::int64_t> divisors_around(std::int64_t n, std::int64_t value) {
  std::int64_t below = 1, above = n;
  for (std::int64_t d = 1; d <= n / d; ++d) {
    if (n % d != 0) continue;
    for (const std::int64_t divisor : {d, n / d}) {
      if (divisor <= value) below = std::max(below, divisor);
      if (divisor >= value) above = std::min(above, divisor);
    }
  }
  return {below, above};
}

/// The advice "KEY = 4 or 8" behind `before`, of the values that the key may have; nothing without such.
std::string advised(const std::string& before, std::string_view key, std::vector<std::int64_t> values) {
  const deck::Range& range = deck::find_key(key)->range;
  std::erase_if(values, [&](std::int64_t value) { return !range.holds(static_cast<double>(value)); });
  return values.empty() ? std::string{} : fmt::format("{}{}", before, fmt::join(values, " or "));
}

}  // namespace

std::int64_t accumulation(const Deck& deck, int batch_ranks) {
  const auto& data = deck.data;
  const std::int64_t round = data.batch * batch_ranks;
  if (data.global_batch % round == 0) {
    deck::check_rounds(deck, data.global_batch / round, round);
    return data.global_batch / round;
  }

  // The nearest rank counts that work, and the nearest global batches that this rank count works with.
  const auto [fewer, more] = divisors_around(data.global_batch / data.batch, batch_ranks);
  const std::string ranks =
      more > batch_ranks ? fmt::format("{} or {}", fewer, more) : fmt::format("{}", fewer);
  const std::int64_t below = data.global_batch / round * round;
  WEFT_VALIDATE(false,
                "{}: {} sequences do not divide into microbatches of {} on {} data-parallel ranks (a round "
                "takes {}); use {} "
                "ranks{}",
                place_of(deck, "data.global_batch"), data.global_batch, data.batch, batch_ranks, round, ranks,
                advised(", or global_batch = ", "data.global_batch", {below, below + round}));
  return 0;
}

namespace {

/// Checks that the tensor axis divides what it cuts.
void check_tensor(const Deck& deck, int ranks) {
  if (ranks == 1) return;
  const ModelDeck& m = deck.model;
  const std::string place = place_of(deck, "parallel.mesh");
  // A vocabulary may be larger than the tokenizer's.
  WEFT_VALIDATE(
      m.vocab % ranks == 0,
      "{}: tensor = {} does not divide model.vocab = {} (each rank of the axis has an equal part of "
      "the vocabulary){}",
      place, ranks, m.vocab, advised("; use model.vocab = ", "model.vocab", {(m.vocab / ranks + 1) * ranks}));
  const std::array cut{std::pair("model.heads", m.heads), std::pair("model.ffn", m.ffn),
                       std::pair("data.seq", deck.data.seq)};
  std::int64_t common = 0;
  for (const auto& [key, extent] : cut) common = std::gcd(common, extent);
  const auto [below, above] = divisors_around(common, ranks);
  const std::string others = above > ranks ? fmt::format("{} or {}", below, above) : fmt::format("{}", below);
  for (const auto& [key, extent] : cut)
    WEFT_VALIDATE(extent % ranks == 0,
                  "{}: tensor = {} does not divide {} = {} (each rank of the axis has equal parts of the "
                  "heads, the feed-forward and the tokens); use tensor = {}",
                  place, ranks, key, extent, others);
  // Neighbours have the same head of keys and values where there are fewer than ranks.
  const auto [fewer, more] = divisors_around(m.kv_heads, ranks);
  WEFT_VALIDATE(
      m.kv_heads % ranks == 0 || ranks % m.kv_heads == 0,
      "{}: tensor = {} neither divides model.kv_heads = {} nor is a multiple of it (each rank of the "
      "axis has whole heads of keys and values); use tensor = {}{}",
      place, ranks, m.kv_heads, fewer, more > fewer ? fmt::format(" or {}", more) : "");
}

/// Checks that the context axis divides the sequences. Each rank of it has two sections of one, which the
/// tensor axis cuts further.
void check_context(const Deck& deck, int ranks, int tensor_ranks) {
  if (ranks == 1) return;
  const std::int64_t seq = deck.data.seq, parts = 2L * ranks * tensor_ranks;
  WEFT_VALIDATE(
      seq % parts == 0,
      "{}: data.seq = {} does not divide by {} (each of the context = {} ranks has two sections of every "
      "sequence{}){}",
      place_of(deck, "parallel.mesh"), seq, parts, ranks,
      tensor_ranks > 1 ? fmt::format(", and cuts them over tensor = {} ranks", tensor_ranks) : "",
      advised("; use data.seq = ", "data.seq", {seq / parts * parts, (seq / parts + 1) * parts}));
}

}  // namespace

Mesh resolve_mesh(const Deck& deck, int world) {
  WEFT_VALIDATE(
      !deck.parallel.mesh.empty(),
      "{}: \"auto\" is chosen by `weft train`, `weft plan` and `weft advise` (nothing else knows for "
      "which run); give the axes, as {{ data = 0 }}",
      place_of(deck, "parallel.mesh"));
  std::vector<MeshAxis> axes = deck.parallel.mesh;
  const auto is_open = [](const MeshAxis& axis) { return axis.size == 0; };
  if (std::none_of(axes.begin(), axes.end(), [](const MeshAxis& axis) { return axis.name == data_axis; })) {
    // Ranks of the tensor and the context axis send most, so they stay neighbours.
    const auto near = std::find_if(axes.begin(), axes.end(), [](const MeshAxis& axis) {
      return axis.name == tensor_axis || axis.name == context_axis;
    });
    const int size = std::any_of(axes.begin(), axes.end(), is_open) ? 1 : 0;
    axes.insert(near, {std::string(data_axis), size});
  }
  MeshAxis* open = nullptr;
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  std::int64_t fixed = 1;
  std::string text;
  for (auto& axis : axes) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", axis.name, axis.size);
    if (is_open(axis))
      open = &axis;
    else
      fixed = std::min(fixed * axis.size, most + 1);  // one too many, whatever follows: 63 bits hold that
  }
  const std::string place = place_of(deck, "parallel.mesh");
  WEFT_VALIDATE(fixed <= most,
                "{}: more places than there can be ranks (mesh {{ {} }}); give the axes smaller sizes", place,
                text);
  if (open) {
    WEFT_VALIDATE(world % fixed == 0,
                  "{}: {} ranks do not divide by {} (mesh {{ {} }}); start a multiple of {} ranks", place,
                  world, fixed, text, fixed);
    open->size = static_cast<int>(world / fixed);
  } else {
    WEFT_VALIDATE(world == fixed,
                  "{}: {} ranks were started for {} places (mesh {{ {} }}); start {}, or give an axis size 0 "
                  "to take what remains",
                  place, world, fixed, text, fixed);
  }
  Mesh mesh(std::move(axes));
  check_tensor(deck, mesh.size(tensor_axis));
  check_context(deck, mesh.size(context_axis), mesh.size(tensor_axis));
  return mesh;
}

}  // namespace weft
