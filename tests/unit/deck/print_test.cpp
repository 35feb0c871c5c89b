// Tests that print_deck and parse_deck are inverse to each other, for decks drawn at random from the schema.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "deck/schema.hpp"
#include "unit/deck/example.hpp"

namespace weft::test {
namespace {

using Random = std::mt19937_64;

std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

std::string draw_text(Random& random) {
  static const std::vector<std::string> pieces{"a", "Z", "\"", "\\", "'", " ", "#",   "=", "[",
                                               "]", ".", "é",  "織", "{", "0", "\\u", "-"};
  std::string text = "x";
  for (auto n = draw(random, 0, 8); n > 0; --n)
    text += pieces[static_cast<std::size_t>(draw(random, 0, std::ssize(pieces) - 1))];
  return text;
}

/// Draws any value of the key's type and range.
struct Draw {
  Random& random;
  const deck::Range& range;

  void operator()(bool* member) const { *member = draw(random, 0, 1); }
  void operator()(std::int64_t* member) const {
    *member = draw(random, static_cast<std::int64_t>(range.low),
                   std::isinf(range.high) ? INT64_MAX : static_cast<std::int64_t>(range.high));
  }
  void operator()(double* member) const {
    do {
      *member = std::ldexp(std::uniform_real_distribution<double>(0, 1)(random),
                           static_cast<int>(draw(random, -60, 60)));
      if (draw(random, 0, 3) == 0) *member = std::round(*member);
    } while (!range.holds(*member));
  }
  void operator()(std::string* member) const { *member = draw_text(random); }
  void operator()(std::vector<std::string>* member) const {
    member->resize(static_cast<std::size_t>(draw(random, 0, 3)));
    for (auto& text : *member) text = draw_text(random);
  }
  void operator()(std::vector<std::int64_t>* member) const {
    member->resize(static_cast<std::size_t>(draw(random, 0, 3)));
    for (auto& item : *member) (*this)(&item);
  }
  void operator()(std::vector<MeshAxis>* member) const {
    *member = {{"data", static_cast<int>(draw(random, 0, 1 << 24))}};
  }
  template <class E>
  void operator()(E* member) const {
    const auto all = deck::choices(E{});
    *member = all[static_cast<std::size_t>(draw(random, 0, std::ssize(all) - 1))].first;
  }
};

/// A deck of which every key is drawn, and which is then made to fit together.
Deck draw_deck(Random& random) {
  Deck deck;
  for (const auto& key : deck::keys()) std::visit(Draw{random, key.range}, key.slot(deck));
  auto& m = deck.model;
  m.kv_heads = draw(random, 1, 16);
  m.heads = m.kv_heads * draw(random, 1, 8);
  m.dim = m.heads * 2 * draw(random, 1, 64);
  m.layers = draw(random, 1, 128);
  m.ffn = draw(random, 1, 1 << 18);
  m.vocab = draw(random, 2, 1 << 22);
  m.rope_scaling.high_freq_factor = m.rope_scaling.low_freq_factor * 2;
  auto& d = deck.data;
  d.seq = draw(random, 1, 1 << 14);  // so that no microbatch leaves what a plan counts
  d.batch = draw(random, 1, 16);
  d.global_batch = d.batch * draw(random, 1, 64);
  if (d.train.empty()) d.synthetic = true;
  if (d.synthetic) d.document_mask = false;
  if (d.valid.empty() && !d.synthetic) d.valid_every = d.valid_sequences = 0;
  auto& o = deck.optimizer;
  o.min_lr = o.decay == LrDecay::constant ? 0 : o.lr / 3;
  o.warmup = draw(random, 0, deck.run.steps / 2);
  o.decay_steps = o.decay == LrDecay::wsd ? draw(random, 1, (deck.run.steps + 1) / 2) : 0;
  auto& p = deck.pipeline;
  if (!serves_chunks(p.schedule, p.chunks)) p.chunks = p.schedule == PipelineKind::zbv ? 2 : 1;
  if (!p.layers.empty()) p.layers = {draw(random, 0, m.layers), 0};
  if (!p.layers.empty()) p.layers.back() = m.layers - p.layers.front();
  auto& n = deck.precision;
  if (n.params != DType::bf16) n.float8.clear();
  if (n.params != DType::bf16) n.grad_wire = n.norms = DType::f32;
  std::erase(n.float8, "");
  if (n.float8.empty()) n.float8_gradients = GradientFormat::e4m3;
  if (n.float8.empty()) n.float8_scales = Float8Scales::rowwise;
  auto& s = deck.schedule;
  if (n.reduction != ReduceOrder::canonical) s.peer_reads = false;
  s.memory_limit = std::max(s.memory_limit, 1.0);
  if (s.bucketing == Bucketing::none || s.bucketing == Bucketing::greedy) s.buckets = ScheduleDeck().buckets;
  if (s.bucketing != Bucketing::automatic && s.regather == Regather::automatic) s.regather = Regather::always;
  deck.log.trace_step = draw(random, 0, deck.run.steps);
  return deck;
}

TEST(Print, ParsesBackToTheSameDeck) {
  Random random(20240521);
  for (int i = 0; i < 500; ++i) {
    const Deck deck = draw_deck(random);
    const std::string text = print_deck(deck);
    Deck read;
    ASSERT_NO_THROW(read = parse_deck_text(text, "printed"))
        << text << error_of([&] { parse_deck_text(text, "printed"); });
    ASSERT_TRUE(read == deck) << text << "\nagain:\n" << print_deck(read);
  }
}

TEST(Print, DecksDifferInEveryKey) {
  // This guards the test above: == and print_deck see each key.
  Random random(7);
  for (const auto& key : deck::keys()) {
    const Deck base = parse_example();
    Deck changed = base;
    for (int tries = 0; changed == base && tries < 100; ++tries)
      std::visit(Draw{random, key.range}, key.slot(changed));
    EXPECT_FALSE(changed == base) << key.path;
    EXPECT_NE(print_deck(changed), print_deck(base)) << key.path;
  }
}

TEST(Print, HasEveryTableAndReadsWell) {
  const auto text = print_deck(parse_example({"run.walltime=9000", "data.train=a.bin"}));
  EXPECT_EQ(text.substr(0, text.find("\n\n[model]")),
            "# Resolved from d.toml\n\n[run]\nname = \"weft\"\ndir = \"runs/weft\"\nsteps = 10\nseed = "
            "1234\nwalltime = \"2h30m\"\nmemory_limit = \"0B\"\ncollective_timeout = "
            "\"10m\"\nstorage_timeout = \"30m\"");
  for (const char* line : {"\nrope_theta = 500000.0\n", "\nnorm_eps = 1e-05\n",
                           "\n[model.rope_scaling]\nfactor = 1.0\n", "\ntrain = \"a.bin\"\nvalid = []\n",
                           "\nmesh = { data = 0 }\n", "\ndecay = \"cosine\"\n", "\n[debug]\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace weft::test
