#include "kernels/sections.hpp"

#include <stdexcept>
#include <vector>

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

TEST(Sections, RefusesWhatItCannotCut) {
  for (const SectionShape& s :
       {SectionShape{1, 6, 8, 2}, SectionShape{1, 8, 8, 1}, SectionShape{1, 8, 0, 2}}) {
    EXPECT_THROW(merge_sections(space(), s, DType::f32, nullptr, nullptr), std::logic_error);
    EXPECT_THROW(split_sections(space(), s, DType::f32, nullptr, nullptr), std::logic_error);
  }
  EXPECT_THROW(split_sections(space(), {1, 8, 8, 2}, DType::i32, nullptr, nullptr), std::logic_error);
}

}  // namespace
}  // namespace weft::kernels
