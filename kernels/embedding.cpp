#include "kernels/embedding.hpp"

#include <fmt/core.h>

#include <stdexcept>

#include "base/limits.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

template <class T>
struct Gather {
  EmbeddingShape shape;
  const std::int32_t* tokens;
  const T* table;
  T* out;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const std::int64_t dim = shape.dim, token = tokens[row] - shape.first;
    T* to = out + row * dim;
    if (token < 0 || token >= shape.vocab) {
      lanes.each_value(
          dim, [](std::int64_t, float& x) { x = 0; }, Write<T>{to});
      return;
    }
    const T* from = table + token * dim;
    lanes.each_value(
        dim, [](std::int64_t, float& x, float value) { x = value; }, Write<T>{to}, Read<T>{from});
  }
};

/// Lists the rows of each token in increasing order: first[token], then next[row], ended by -1. A worker owns
/// a range of tokens and reads all rows backwards. So the lists need neither atomics nor a sort, and do not
/// depend on the workers.
struct ListRows {
  EmbeddingShape shape;
  std::int64_t workers;
  const std::int32_t* tokens;
  std::int32_t* first;
  std::int32_t* next;

  KOKKOS_FUNCTION void operator()(std::int64_t worker) const {
    const std::int64_t begin = shape.vocab * worker / workers;
    const std::int64_t end = shape.vocab * (worker + 1) / workers;
    for (std::int64_t v = begin; v < end; ++v) first[v] = -1;
    for (std::int64_t r = shape.rows - 1; r >= 0; --r) {
      const std::int64_t token = tokens[r] - shape.first;
      if (token < begin || token >= end) continue;
      next[r] = first[token];
      first[token] = static_cast<std::int32_t>(r);
    }
  }
};

template <class T, class G>
struct SumRows {
  std::int64_t dim;
  const std::int32_t* first;
  const std::int32_t* next;
  const T* dout;
  G* dtable;

  /// A tile of columns stays in registers or the nearest cache while the token's rows are added.
  static constexpr std::int64_t tile = runs_on_host ? 256 : 1;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t token) const {
    G* to = dtable + token * dim;
    if (first[token] < 0) {
      lanes.each_value(
          dim, [](std::int64_t, float& x) { x = 0; }, Write<G>{to});
      return;
    }
    if constexpr (!runs_on_host) {
      if (takes_packets(dim, Write<G>{to}, Read<T>{dout}))
        lanes.each_packet(dim, [&](std::int64_t c) { add_packet(token, c); });
      else
        lanes.each(dim, [&](std::int64_t c) { add_columns(token, c, 1); });
    } else {
      for (std::int64_t c = 0; c < dim; c += tile) add_columns(token, c, dim - c < tile ? dim - c : tile);
    }
  }

  KOKKOS_FUNCTION void add_packet(std::int64_t token, std::int64_t column) const {
    float sum[packet] = {};
    for (std::int32_t r = first[token]; r >= 0; r = next[r]) {
      float x[packet];
      load_packet(dout + r * dim + column, x);
      for (int c = 0; c < packet; ++c) sum[c] += x[c];
    }
    store_packet(dtable + token * dim + column, sum);
  }

  KOKKOS_FUNCTION void add_columns(std::int64_t token, std::int64_t column, std::int64_t count) const {
    float sum[tile];
    for (std::int64_t c = 0; c < count; ++c) sum[c] = 0;
    for (std::int32_t r = first[token]; r >= 0; r = next[r]) {
      const T* from = dout + r * dim + column;
      for (std::int64_t c = 0; c < count; ++c) sum[c] += to_float(from[c]);
    }
    G* to = dtable + token * dim + column;
    for (std::int64_t c = 0; c < count; ++c) to[c] = from_float<G>(sum[c]);
  }
};

}  // namespace

void embedding(Space& space, EmbeddingShape shape, DType t, const std::int32_t* tokens, const void* table,
               void* out) {
  with_float_type("embedding", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::embedding::forward", shape.rows,
                 Gather<T>{shape, tokens, static_cast<const T*>(table), static_cast<T*>(out)});
  });
}

void embedding_grad(Space& space, EmbeddingShape shape, DType t, const std::int32_t* tokens, const void* dout,
                    DType grad_type, void* dtable, void* scratch) {
  if (shape.rows > limits::most_indices)
    throw std::logic_error(fmt::format("embedding_grad: {} rows are more than the lists hold", shape.rows));
  auto* first = static_cast<std::int32_t*>(scratch);
  auto* next = first + shape.vocab;
  const std::int64_t wanted = runs_on_host ? execution_of(space).concurrency() : 4096;
  const std::int64_t workers = wanted < shape.vocab ? wanted : shape.vocab;
  Kokkos::parallel_for("weft::embedding::list_rows",
                       Kokkos::RangePolicy<Execution>(execution_of(space), 0, workers),
                       ListRows{shape, workers, tokens, first, next});
  with_float_type("embedding_grad", t, [&](auto type) {
    using T = decltype(type);
    with_float_type("embedding_grad", grad_type, [&](auto grad) {
      using G = decltype(grad);
      for_each_row(
          space, "weft::embedding::backward", shape.vocab,
          SumRows<T, G>{shape.dim, first, next, static_cast<const T*>(dout), static_cast<G*>(dtable)});
    });
  });
}

std::size_t embedding_grad_scratch_bytes(EmbeddingShape shape) {
  return static_cast<std::size_t>(shape.vocab + shape.rows) * sizeof(std::int32_t);
}

}  // namespace weft::kernels
