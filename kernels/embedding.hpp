// Token embedding: a row of the table for each token, and the gradient of the whole table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

struct EmbeddingShape {
  std::int64_t rows;   ///< B*T
  std::int64_t vocab;  ///< V
  std::int64_t dim;    ///< C
  /// The token of the table's first row, where the table is a part of a larger one: it holds those of tokens
  /// [first, first + vocab).
  std::int64_t first = 0;
};

/// out[r, :] = table[tokens[r] - first, :], and zeros for tokens that the table does not hold. tokens [rows];
/// table [vocab, dim] and out [rows, dim] of type `t` (f32 or bf16; std::logic_error otherwise).
void embedding(Space& space, EmbeddingShape shape, DType t, const std::int32_t* tokens, const void* table,
               void* out);

/// Writes all of dtable [vocab, dim] (`grad_type`): the fp32 sum of dout [rows, dim] (`t`) over the rows of
/// each token, in increasing order of rows; zeros for tokens that do not occur. Tokens that the table does
/// not hold are left out. `scratch` holds embedding_grad_scratch_bytes(shape).
void embedding_grad(Space& space, EmbeddingShape shape, DType t, const std::int32_t* tokens, const void* dout,
                    DType grad_type, void* dtable, void* scratch);
std::size_t embedding_grad_scratch_bytes(EmbeddingShape shape);

}  // namespace weft::kernels
