// Puts the sections of sequences that ranks of a context axis share into order, and back.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// Sequences [B, T, `width`] that c ranks share. Each is 2c sections of T / 2c tokens: rank r has sections r
/// and 2c - 1 - r of all of them.
struct SectionShape {
  std::int64_t batch, seq, width;  ///< B, T (a multiple of 2c), and the elements of a token
  int context;                     ///< c, more than one
};

/// sequences [B, T, width] = sections [c, 2, B, T / 2c, width], those of all ranks one behind the other, each
/// with its two sections of every sequence. Elements are f32 or bf16 (std::logic_error otherwise, and for a
/// shape out of range).
void merge_sections(Space& space, SectionShape shape, DType t, const void* sections, void* sequences);
/// The reverse.
void split_sections(Space& space, SectionShape shape, DType t, const void* sequences, void* sections);

}  // namespace weft::kernels
