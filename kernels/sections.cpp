#include "kernels/sections.hpp"

#include <fmt/core.h>

#include <stdexcept>

#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

/// Copies the rows of all tokens, of sequences in their order.
template <class T, bool merges>
struct Copy {
  SectionShape shape;
  const T* from;
  T* to;

  /// The row, among those of the sections, of a token of the sequences.
  KOKKOS_FUNCTION std::int64_t row_of(std::int64_t token) const {
    const std::int64_t count = 2 * shape.context, length = shape.seq / count;
    const std::int64_t sequence = token / shape.seq, place = token % shape.seq;
    const std::int64_t section = place / length, mirrored = count - 1 - section;
    const bool first = section < mirrored;
    const std::int64_t half = 2 * (first ? section : mirrored) + (first ? 0 : 1);
    return (half * shape.batch + sequence) * length + place % length;
  }

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t token) const {
    const std::int64_t row = row_of(token);
    const T* source = from + (merges ? row : token) * shape.width;
    T* target = to + (merges ? token : row) * shape.width;
    lanes.each(shape.width, [&](std::int64_t i) { target[i] = source[i]; });
  }
};

void check(const SectionShape& s) {
  if (s.batch > 0 && s.seq > 0 && s.width > 0 && s.context > 1 && s.seq % (2 * s.context) == 0) return;
  throw std::logic_error(fmt::format("sections: no kernel for batch {}, seq {}, width {}, context {}",
                                     s.batch, s.seq, s.width, s.context));
}

template <bool merges>
void copy_rows(Space& space, const char* name, const SectionShape& shape, DType t, const void* from,
               void* to) {
  check(shape);
  with_float_type(name, t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, name, shape.batch * shape.seq,
                 Copy<T, merges>{shape, static_cast<const T*>(from), static_cast<T*>(to)});
  });
}

}  // namespace

void merge_sections(Space& space, SectionShape shape, DType t, const void* sections, void* sequences) {
  copy_rows<true>(space, "weft::merge_sections::forward", shape, t, sections, sequences);
}

void split_sections(Space& space, SectionShape shape, DType t, const void* sequences, void* sections) {
  copy_rows<false>(space, "weft::split_sections::backward", shape, t, sequences, sections);
}

}  // namespace weft::kernels
