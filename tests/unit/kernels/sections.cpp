#include "kernels/sections.hpp"

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "kernels/attention_pieces.hpp"
#include "rig.hpp"

namespace weft::kernels {
namespace {

using namespace rig;

/// The element of sections [c][2][B][T/(2c)][width] that belongs at token `g` of sequence `b`, at `w` of its
/// row.
std::int64_t place_in_sections(const SectionShape& s, std::int64_t b, std::int64_t g, std::int64_t w) {
  const std::int64_t length = s.seq / (2 * s.context), section = g / length;
  const bool early = section < s.context;
  const std::int64_t rank = early ? section : 2 * s.context - 1 - section, run = early ? 0 : 1;
  return (((rank * 2 + run) * s.batch + b) * length + g % length) * s.width + w;
}

void check_sections(const SectionShape& s, DType t) {
  SCOPED_TRACE(testing::Message() << name_of(t) << " B " << s.batch << " T " << s.seq << " width " << s.width
                                  << " context " << s.context);
  const std::int64_t n = s.batch * s.seq * s.width;
  const Array x = random(n, t, 1);
  const Device sequences(x, t), sections(n, t), again(n, t);
  split_sections(space(), s, t, sequences.data(), sections.data());
  const Array split = sections.read();
  for (std::int64_t b = 0, i = 0; b < s.batch; ++b)
    for (std::int64_t g = 0; g < s.seq; ++g)
      for (std::int64_t w = 0; w < s.width; ++w, ++i)
        ASSERT_EQ(split[static_cast<std::size_t>(place_in_sections(s, b, g, w))],
                  x[static_cast<std::size_t>(i)])
            << "token " << g << " of sequence " << b << ", element " << w;
  merge_sections(space(), s, t, sections.data(), again.data());
  EXPECT_TRUE(again.bytes() == sequences.bytes());
}

TEST(Sections, MergeAndSplit) {
  for (const DType t : float_types)
    for (const int context : {2, 3, 4})
      for (const std::int64_t section : {1, 3, 8, 40})
        for (const std::int64_t width : {1, 7, 8, 64})
          for (const std::int64_t batch : {1, 3})
            check_sections({batch, 2 * context * section, width, context}, t);
}

/// All bits of bf16, NaNs of every kind among them, which a device copies by packets.
TEST(Sections, EveryBitIsCopied) {
  const SectionShape shape{1, 1024, 64, 2};
  std::vector<std::uint16_t> before(1 << 16), after(before.size());
  std::iota(before.begin(), before.end(), std::uint16_t{0});
  const std::size_t bytes = before.size() * sizeof before[0];
  const Buffer sequences(bytes, "test"), sections = scratch(bytes), again = scratch(bytes);
  copy_to_device(space(), sequences.data(), before.data(), bytes);
  split_sections(space(), shape, DType::bf16, sequences.data(), sections.data());
  merge_sections(space(), shape, DType::bf16, sections.data(), again.data());
  copy_to_host(space(), after.data(), again.data(), bytes);
  EXPECT_TRUE(after == before);
}

TEST(Sections, RefusesWhatItCannotCut) {
  for (const SectionShape& s :
       {SectionShape{1, 6, 8, 2}, SectionShape{1, 8, 8, 1}, SectionShape{1, 8, 0, 2}}) {
    EXPECT_THROW(merge_sections(space(), s, DType::f32, nullptr, nullptr), std::logic_error);
    EXPECT_THROW(split_sections(space(), s, DType::f32, nullptr, nullptr), std::logic_error);
  }
  EXPECT_THROW(split_sections(space(), {1, 8, 8, 2}, DType::i32, nullptr, nullptr), std::logic_error);
}

/// Gradients of keys: two pieces of a run of queries that sees 5 of 7 tokens, and one of a run that sees 2.
/// They go to `width` elements of the 24 of a token, from `first` on; `in_place` says that the sum has values
/// of 6 tokens already.
void check_pieces(bool in_place, std::int64_t width, std::int64_t first) {
  SCOPED_TRACE(testing::Message() << width << " elements from " << first << " on");
  constexpr std::int64_t batch = 2, seq = 7, token = 24;
  const Array before = random(batch * seq * token, DType::bf16, 1);
  const Array long_ones = random(2 * batch * 5 * width, DType::bf16, 2),
              short_one = random(batch * 2 * width, DType::bf16, 3);
  const Device sum(before, DType::bf16), longs(long_ones, DType::bf16), shorts(short_one, DType::bf16);
  sum_pieces(
      space(),
      {batch, seq, width, token, {{shorts.as<bf16>(), 1, 2}, {longs.as<bf16>(), 2, 5}}, in_place ? 6 : 0},
      sum.as<bf16>() + first);
  const Array after = sum.read();
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t < seq; ++t)
      for (std::int64_t i = 0; i < token; ++i) {
        const auto at = static_cast<std::size_t>((b * seq + t) * token + i);
        const std::int64_t w = i - first;
        const auto piece = [&](const Array& x, std::int64_t tokens, std::int64_t n) {
          if (t >= tokens) return 0.0F;
          return static_cast<float>(x[static_cast<std::size_t>(((n * batch + b) * tokens + t) * width + w)]);
        };
        double expected = before[at];
        if (w >= 0 && w < width) {
          float total = in_place && t < 6 ? static_cast<float>(before[at]) : 0;
          total += piece(short_one, 2, 0);
          total += piece(long_ones, 5, 0);
          total += piece(long_ones, 5, 1);
          expected = to_float(to_bf16(total));
        }
        ASSERT_EQ(after[at], expected) << "token " << t << " of sequence " << b << ", element " << i;
      }
}

TEST(Sections, GradientsOfKeysAreAddedUpFromPieces) {
  for (const bool in_place : {false, true})
    for (const std::int64_t width : {3, 8, 16})  // a device takes 8 at a time where all begin at 16 bytes
      for (const std::int64_t first : {2, 8}) check_pieces(in_place, width, first);
}

}  // namespace
}  // namespace weft::kernels
