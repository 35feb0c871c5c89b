// Units: the parameters that are stored and gathered together. A unit is one flat row-major buffer; a
// parameter is a view of it at an offset, and a rank's shard is a contiguous slice of it. Padding stands
// once, at the unit's end.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/inline_vector.hpp"

namespace weft {

using Shape = InlineVector<std::int64_t, 4>;

inline std::int64_t element_count(const Shape& shape) {
  std::int64_t n = 1;
  for (auto extent : shape) n *= extent;
  return n;
}

/// The rows [first, second) of one column of a row-major matrix of `columns` that are among its elements
/// [from, to).
inline std::pair<std::int64_t, std::int64_t> rows_of_column(std::int64_t from, std::int64_t to,
                                                            std::int64_t columns, std::int64_t column) {
  const auto rows_before = [&](std::int64_t element) {
    return element > column ? (element - column + columns - 1) / columns : 0;
  };
  return {rows_before(from), rows_before(to)};
}

/// A shard boundary falls on a multiple of this many elements, so that the gradient norm's chunks are the
/// same for any number of ranks.
inline constexpr std::int64_t shard_granularity = 256;

struct Parameter {
  std::string path;         ///< module path: "layers.3.attn.wq"
  Shape shape;              ///< row-major; matrices are [out, in], or [in, out] where `in_first` says so
  std::int64_t offset = 0;  ///< elements from the unit's start
  bool in_first = false;
  /// Into how many equal parts a tensor axis may cut it, along dimension 0; 0: into any number. A rank of
  /// such an axis has one part. Where the axis has more ranks than parts, neighbours have the same one.
  std::int64_t most_parts = 0;
  /// `shape` is one of this many equal parts; 1: the parameter is whole.
  int parts = 1;
};

/// The whole parameter that `p` is a part of. Its offset is the part's.
inline Parameter whole(const Parameter& p) {
  Parameter all = p;
  all.shape[0] *= p.parts;
  all.parts = 1;
  return all;
}

/// The first element of the whole parameter that the rank at this place of a tensor axis has.
inline std::int64_t first_element(const Parameter& p, int tensor_rank, int tensor_ranks) {
  return std::int64_t{tensor_rank} * p.parts / tensor_ranks * element_count(p.shape);
}

/// The shape [out, in] of a matrix, whichever way it is stored; of other parameters, the shape.
inline Shape out_in_shape(const Parameter& p) {
  return p.in_first ? Shape{p.shape[1], p.shape[0]} : p.shape;
}

/// Element `i` of a parameter as it would be counted in a matrix [out, in].
inline std::int64_t out_in_index(const Parameter& p, std::int64_t i) {
  return p.in_first ? i % p.shape[1] * p.shape[0] + i / p.shape[1] : i;
}

struct Unit {
  std::string path;  ///< "embed", "layers.3.attn", "layers.3.ffn", "head"
  std::vector<Parameter> parameters;
  std::int64_t elements = 0;  ///< sum of the parameters, without padding
  /// The place on the pipe of the other rank that has this unit, too (a table that embedding and head share);
  /// negative: there is none. Both keep its state, and add up its gradient.
  int twin = -1;
  bool copy = false;       ///< the twin saves the unit and counts it in norms and hashes
  int copies = 1;          ///< how many neighbours on the tensor axis have the same parts in it
  bool float8 = false;     ///< products with its matrices are made in Float8
  bool f32_norms = false;  ///< its norms' weights are read as fp32, whatever type the others have
  bool lasting = false;    ///< all layers read it, so it stays gathered for a whole step

  /// Elements of one rank's slice when the unit is cut over `ranks`.
  std::int64_t shard_elements(int ranks) const {
    const std::int64_t grain = shard_granularity * ranks;
    return (elements + grain - 1) / grain * shard_granularity;
  }
  std::int64_t padded_elements(int ranks) const { return shard_elements(ranks) * ranks; }
};

}  // namespace weft
