// Tests attention where ranks share sequences: each has the queries of two sections.
#include "attention_checks.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

/// The rows that a rank has of [sequences, T, width]: [R, sequences, Tq, width].
template <class Values>
Values runs_of(const Values& whole, const AttentionShape& s, std::int64_t sequences, std::int64_t width) {
  Values result;
  for (int run = 0; run < s.runs(); ++run)
    for (std::int64_t i = 0; i < sequences; ++i) {
      const auto begin = whole.begin() + (i * s.seq + s.first(run)) * width;
      result.insert(result.end(), begin, begin + s.queries() * width);
    }
  return result;
}

/// Positions [B, T] of documents of up to `longest` tokens.
Tokens random_documents(std::int64_t batch, std::int64_t seq, std::int64_t longest) {
  const Tokens lengths = random_tokens(batch * seq, longest, 9);  // lengths less one
  Tokens positions;
  for (std::int64_t i = 0, begin = 0; i < batch * seq; ++i) {
    if (i % seq == 0 || i - begin > lengths[static_cast<std::size_t>(begin)]) begin = i;
    positions.push_back(static_cast<std::int32_t>(i - begin));
  }
  return positions;
}

/// Calls f(shape) for each place among ranks, for sections of many lengths.
template <class F>
void each_place(F f) {
  int shapes = 0;
  for (const int context : {2, 3, 4})
    for (const std::int64_t section : {1, 3, 8, 32, 40, 64, 100})
      for (int place = 0; place < context; ++place, ++shapes) {
        const std::int64_t batch = (context + shapes) % 2 == 0 ? 1 : 3;
        f(AttentionShape{batch, 2 * context * section, 4, 2, 16, context, place});
      }
  EXPECT_EQ(shapes, 63);
}

TEST(Attention, PlacesOfAContext) {
  const AttentionShape s{1, 24, 1, 1, 8, 3, 1};
  EXPECT_EQ(s.runs(), 2);
  EXPECT_EQ(s.queries(), 4);
  EXPECT_EQ(s.first(0), 4);
  EXPECT_EQ(s.first(1), 16);
  EXPECT_EQ(s.seen(), 20);
  const AttentionShape alone{1, 24, 1, 1, 8};
  EXPECT_EQ(alone.runs(), 1);
  EXPECT_EQ(alone.queries(), 24);
  EXPECT_EQ(alone.first(0), 0);
  EXPECT_EQ(alone.seen(), 24);
}

TEST(Attention, EveryPlaceOfAContext) {
  for (const DType t : float_types) each_place([&](const AttentionShape& s) { check_default(s, t); });
}

TEST(Attention, EveryPlaceOfAContextWithDocuments) {
  for (const DType t : float_types)
    each_place([&](const AttentionShape& s) {
      const std::int64_t longest = s.place % 2 == 0 ? s.seq : 30;
      check_default(s, t, runs_of(random_documents(s.batch, s.seq, longest), s, s.batch, 1));
    });
}

/// Each with documents in one type, and without in the other.
TEST(Attention, EveryPlaceOfAContextByTeams) {
  for (const DType t : float_types)
    each_place([&, documents = t == DType::f32](const AttentionShape& s) mutable {
      if (documents)
        check_team(s, t, runs_of(random_documents(s.batch, s.seq, 60), s, s.batch, 1));
      else
        check_team(s, t);
      documents = !documents;
    });
}

/// Sections of whole tiles and of others, which are longer than what the back ends take at a time.
TEST(Attention, LongSections) {
  for (const DType t : float_types)
    for (const std::int64_t section : {192, 200})
      for (int place = 0; place < 2; ++place) check_default({1, 4 * section, 2, 1, 64, 2, place}, t);
}

AttentionResults run_default(const AttentionShape& s, DType t, const Tensors& x, const Tokens& positions) {
  const bool documents = !positions.empty();
  return run_attention(
      s, t, x, positions,
      {attention_scratch_bytes(s, t, documents), attention_grad_scratch_bytes(s, t, documents)},
      [&](auto... arguments) { attention(space(), s, t, arguments...); },
      [&](const AttentionGrad& grad) { attention_grad(space(), s, t, grad); });
}

/// Whole sequences by the back end that serves the places of a context, because two back ends are apart by
/// the roundings of both: cuDNN takes whole sequences, and sections of whole 64 tokens.
AttentionResults run_whole(const AttentionShape& s, DType t, const Tensors& x, const Tokens& positions,
                           std::int64_t section) {
  if (device_is_host() || section % 64 == 0) return run_default(s, t, x, positions);
  return run_attention(
      s, t, x, positions, {team::attention_scratch_bytes(s, t), team::attention_grad_scratch_bytes(s, t)},
      [&](auto... arguments) { team::attention(space(), s, t, arguments...); },
      [&](const AttentionGrad& grad) { team::attention_grad(space(), s, t, grad); });
}

void add_to(Array& sum, const Array& x) {
  sum.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
}

/// Expects keys that no query sees to have gradients of zero, in [B, T, Hkv, D].
void expect_zeros_behind(const AttentionShape& s, const Array& gradient) {
  const std::int64_t width = s.kv_heads * s.head_dim;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t i = (b * s.seq + s.seen()) * width; i < (b + 1) * s.seq * width; ++i)
      ASSERT_EQ(gradient[static_cast<std::size_t>(i)], 0.0) << "place " << s.place << ", element " << i;
}

/// Compares what all places make with what one rank makes of whole sequences.
void check_places(const AttentionShape& whole, int context, DType t, const Tokens& positions) {
  SCOPED_TRACE(testing::Message() << name_of(t) << " T " << whole.seq << ", " << context << " places");
  const Tensors x = tensors(whole, t);
  const AttentionResults expected = run_whole(whole, t, x, positions, whole.seq / (2 * context));
  Array dk, dv;
  for (int place = 0; place < context; ++place) {
    AttentionShape s = whole;
    s.context = context;
    s.place = place;
    const auto mine = [&](const auto& values, std::int64_t width) {
      return values.empty() ? values : runs_of(values, s, s.batch, width);
    };
    const std::int64_t width = s.heads * s.head_dim;
    const AttentionResults made =
        run_default(s, t, {mine(x.q, width), x.k, x.v, mine(x.dout, width)}, mine(positions, 1));
    expect_close("o", made.o, mine(expected.o, width), t);
    EXPECT_TRUE(close(made.lse, runs_of(expected.lse, s, s.batch * s.heads, 1), lse_tolerance(t), 1e-6));
    expect_close("dq", made.dq, mine(expected.dq, width), t, 1e-5);
    expect_zeros_behind(s, made.dk);
    expect_zeros_behind(s, made.dv);
    add_to(dk, made.dk);
    add_to(dv, made.dv);
  }
  expect_close("dk", dk, expected.dk, t, 1e-5);
  expect_close("dv", dv, expected.dv, t);
}

TEST(Attention, PlacesMakeUpTheWhole) {
  for (const DType t : float_types)
    for (const int context : {2, 3, 4})
      for (const std::int64_t section : {3, 40, 64}) {
        const AttentionShape whole{3, 2 * context * section, 4, 2, 48};
        check_places(whole, context, t, {});
        check_places(whole, context, t, random_documents(whole.batch, whole.seq, 100));
      }
}

}  // namespace
}  // namespace weft::kernels
