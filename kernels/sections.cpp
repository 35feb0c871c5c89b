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

  KOKKOS_FUNCTION const T* source(std::int64_t token) const {
    return from + (merges ? row_of(token) : token) * shape.width;
  }
  KOKKOS_FUNCTION T* target(std::int64_t token) const {
    return to + (merges ? token : row_of(token)) * shape.width;
  }

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t token) const {
    const T* const row = source(token);
    T* const copy = target(token);
    lanes.each(shape.width, [&](std::int64_t i) { copy[i] = row[i]; });
  }
};

/// Does what Copy does, a packet of a token a thread.
template <class T, bool merges>
struct CopyPackets {
  Copy<T, merges> c;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t packets = c.shape.width / packet, token = i / packets, begin = i % packets * packet;
    copy_packet(c.source(token) + begin, c.target(token) + begin);
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
    const Copy<T, merges> copy{shape, static_cast<const T*>(from), static_cast<T*>(to)};
    const std::int64_t tokens = shape.batch * shape.seq;
    if constexpr (!runs_on_host)
      if (takes_packets(shape.width, Read<T>{copy.from}, Write<T>{copy.to}))
        return for_each_element(space, name, tokens * (shape.width / packet), CopyPackets<T, merges>{copy});
    for_each_row(space, name, tokens, copy);
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
