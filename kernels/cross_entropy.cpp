#include "kernels/cross_entropy.hpp"

#include <type_traits>

#include "base/portable_math.hpp"
#include "kernels/bf16_engine/rows.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"
#include "kernels/math.hpp"

namespace weft::kernels {

namespace {

constexpr std::int64_t chunk_rows = 256;

std::int64_t chunk_count(std::int64_t rows) {
  return (rows + chunk_rows - 1) / chunk_rows;
}

/// The natural logarithm. On the host its bits are the same on every processor.
template <class T>
KOKKOS_INLINE_FUNCTION float log_of(T x) {
  if constexpr (runs_on_host)
    return static_cast<float>(portable::log(static_cast<double>(x)));
  else
    return Kokkos::log(x);
}

/// What a loss needs of a row of logits: the largest, and the sum of the exponentials of all less the
/// largest.
struct Exponentials {
  float largest, sum;
};

/// Reads the row once: a thread's sum so far is scaled down whenever a larger logit comes.
template <class Lanes, class T>
KOKKOS_FUNCTION Exponentials exponentials_of_packets(const Lanes& lanes, std::int64_t vocab, const T* z) {
  constexpr float least =
      -3e38f;  // it is finite, so that a thread without logits has no difference of infinities
  float largest = least, sum = 0;
  lanes.each_packet(vocab, [&](std::int64_t begin) {
    float x[packet];
    load_packet(z + begin, x);
    float next = largest;
    for (const float logit : x) next = logit > next ? logit : next;
    sum *= exp_f32(largest - next);
    for (const float logit : x) sum += exp_f32(logit - next);
    largest = next;
  });
  const float of_row = lanes.max_of_threads(largest);
  return {of_row, lanes.sum_of_threads(sum * exp_f32(largest - of_row))};
}

template <class Lanes, class T>
KOKKOS_FUNCTION Exponentials exponentials_of(const Lanes& lanes, std::int64_t vocab, const T* z,
                                             [[maybe_unused]] bool by_engine) {
  if constexpr (runs_on_host && std::is_same_v<T, bf16>)
    if (by_engine) {
      const float largest = bf16_engine::largest_of_row(vocab, z);
      return {largest, bf16_engine::powers_of_row(vocab, z, largest)};
    }
  if constexpr (!runs_on_host)
    if (takes_packets(vocab, Read<T>{z})) return exponentials_of_packets(lanes, vocab, z);
  const float largest = lanes.max(vocab, [&](std::int64_t c) { return to_float(z[c]); });
  const float sum = lanes.sum(vocab, [&](std::int64_t c) { return exp_f32(to_float(z[c]) - largest); });
  return {largest, sum};
}

template <class T>
struct CrossEntropyForward {
  std::int64_t vocab;
  const T* logits;
  const std::int32_t* targets;
  float* lse;
  float* losses;  ///< [rows]
  bool by_engine;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const T* z = logits + row * vocab;
    const std::int32_t target = targets[row];
    if (target < 0) {
      lanes.once([&] { lse[row] = losses[row] = 0; });
      return;
    }
    const auto [largest, sum] = exponentials_of(lanes, vocab, z, by_engine);
    finish(lanes, row, largest, sum);
  }

  template <class Lanes>
  KOKKOS_FUNCTION void finish(const Lanes& lanes, std::int64_t row, float largest, float sum) const {
    lanes.once([&] {
      const float log_sum = log_of(sum);
      lse[row] = largest + log_sum;
      // The larger terms are taken first, so that they cancel.
      losses[row] = log_sum + (largest - to_float(logits[row * vocab + targets[row]]));
    });
  }
};

struct SumChunk {
  std::int64_t rows;
  const float* losses;
  const std::int32_t* targets;
  double* partial;  ///< [chunks][2]

  KOKKOS_FUNCTION void operator()(std::int64_t chunk) const {
    const std::int64_t end = (chunk + 1) * chunk_rows < rows ? (chunk + 1) * chunk_rows : rows;
    double sum = 0;
    double count = 0;
    for (std::int64_t row = chunk * chunk_rows; row < end; ++row) {
      sum += static_cast<double>(losses[row]);
      count += targets[row] < 0 ? 0.0 : 1.0;
    }
    partial[2 * chunk] = sum;
    partial[2 * chunk + 1] = count;
  }
};

struct SumChunks {
  std::int64_t chunks;
  const double* partial;
  double* totals;

  KOKKOS_FUNCTION void operator()(std::int64_t) const {
    double sum = 0;
    double count = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      sum += partial[2 * chunk];
      count += partial[2 * chunk + 1];
    }
    totals[0] = sum;
    totals[1] = count;
  }
};

template <class T>
struct Part {
  LossShape shape;
  const T* logits;
  const std::int32_t* targets;
  float* parts;
  bool by_engine;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const std::int64_t vocab = shape.vocab;
    const T* z = logits + row * vocab;
    if (targets[row] < 0) return finish(lanes, row, 0, 0);
    const auto [largest, sum] = exponentials_of(lanes, vocab, z, by_engine);
    finish(lanes, row, largest, sum);
  }

  template <class Lanes>
  KOKKOS_FUNCTION void finish(const Lanes& lanes, std::int64_t row, float largest, float sum) const {
    lanes.once([&] {
      const std::int64_t target = targets[row] - shape.first;
      const bool here = targets[row] >= 0 && target >= 0 && target < shape.vocab;
      parts[3 * row] = largest;
      parts[3 * row + 1] = sum;
      parts[3 * row + 2] = here ? to_float(logits[row * shape.vocab + target]) : 0;
    });
  }
};

struct JoinParts {
  std::int64_t rows, ranks;
  const float* parts;
  const std::int32_t* targets;
  float* lse;
  float* losses;  ///< [rows]

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    if (targets[row] < 0) {
      lse[row] = losses[row] = 0;
      return;
    }
    const auto part = [&](std::int64_t rank) { return parts + 3 * (rank * rows + row); };
    float largest = part(0)[0], sum = 0, target = 0;
    for (std::int64_t rank = 1; rank < ranks; ++rank)
      largest = part(rank)[0] > largest ? part(rank)[0] : largest;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      sum += part(rank)[1] * exp_f32(part(rank)[0] - largest);
      target += part(rank)[2];
    }
    const float log_sum = log_of(sum);
    lse[row] = largest + log_sum;
    losses[row] = log_sum + (largest - target);
  }
};

template <class T>
struct CrossEntropyBackward {
  std::int64_t vocab;
  std::int64_t first;
  const T* logits;
  const std::int32_t* targets;
  const float* lse;
  T* dlogits;
  bool by_engine;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const T* z = logits + row * vocab;
    T* dz = dlogits + row * vocab;
    const std::int64_t target = targets[row] - first;
    if (targets[row] < 0) {
      lanes.each(vocab, [&](std::int64_t c) { dz[c] = from_float<T>(0.0f); });
      return;
    }
    const float shift = lse[row];
    if constexpr (runs_on_host) {
      // One element apart from the loop: GCC does not vectorise the question which it is.
      const bool here = target >= 0 && target < vocab;
      const float hit = here ? exp_f32(to_float(z[target]) - shift) - 1.0f : 0;
      softmax(lanes, z, shift, dz);
      if (here) dz[target] = from_float<T>(hit);
    } else {
      lanes.each_value(
          vocab,
          [=](std::int64_t c, float& out, float logit) {
            const float p = exp_f32(logit - shift);
            out = c == target ? p - 1.0f : p;
          },
          Write<T>{dz}, Read<T>{z});
    }
  }

  template <class Lanes>
  void softmax(const Lanes& lanes, const T* z, float shift, T* dz) const {
    if constexpr (std::is_same_v<T, bf16>)
      if (by_engine) return bf16_engine::softmax_row(vocab, z, shift, dz);
    lanes.each_value(
        vocab, [=](std::int64_t, float& out, float logit) { out = exp_f32(logit - shift); }, Write<T>{dz},
        Read<T>{z});
  }
};

using Range = Kokkos::RangePolicy<Execution, Kokkos::IndexType<std::int64_t>>;

void sum_losses(Space& space, std::int64_t rows, const float* losses, const std::int32_t* targets,
                double* partial, double* totals) {
  const std::int64_t chunks = chunk_count(rows);
  Kokkos::parallel_for("weft::cross_entropy::sum_rows", Range(execution_of(space), 0, chunks),
                       SumChunk{rows, losses, targets, partial});
  Kokkos::parallel_for("weft::cross_entropy::sum_chunks", Range(execution_of(space), 0, 1),
                       SumChunks{chunks, partial, totals});
}

}  // namespace

void cross_entropy(Space& space, LossShape shape, DType t, const void* logits, const std::int32_t* targets,
                   float* lse, double* totals, void* scratch) {
  auto* partial = static_cast<double*>(scratch);
  auto* losses = reinterpret_cast<float*>(partial + 2 * chunk_count(shape.rows));
  with_float_type("cross_entropy", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::cross_entropy::forward", shape.rows,
                 CrossEntropyForward<T>{shape.vocab, static_cast<const T*>(logits), targets, lse, losses,
                                        bf16_engine::serves_rows(t)});
  });
  sum_losses(space, shape.rows, losses, targets, partial, totals);
}

void cross_entropy_part(Space& space, LossShape shape, DType t, const void* logits,
                        const std::int32_t* targets, float* parts) {
  with_float_type("cross_entropy_part", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::cross_entropy::part", shape.rows,
                 Part<T>{shape, static_cast<const T*>(logits), targets, parts, bf16_engine::serves_rows(t)});
  });
}

void cross_entropy_of_parts(Space& space, std::int64_t rows, std::int64_t ranks, const float* parts,
                            const std::int32_t* targets, float* lse, double* totals, void* scratch) {
  auto* partial = static_cast<double*>(scratch);
  auto* losses = reinterpret_cast<float*>(partial + 2 * chunk_count(rows));
  Kokkos::parallel_for("weft::cross_entropy::join_parts", Range(execution_of(space), 0, rows),
                       JoinParts{rows, ranks, parts, targets, lse, losses});
  sum_losses(space, rows, losses, targets, partial, totals);
}

std::size_t cross_entropy_scratch_bytes(LossShape shape) {
  return static_cast<std::size_t>(chunk_count(shape.rows)) * 2 * sizeof(double) +
         static_cast<std::size_t>(shape.rows) * sizeof(float);
}

void cross_entropy_grad(Space& space, LossShape shape, DType t, const void* logits,
                        const std::int32_t* targets, const float* lse, void* dlogits) {
  with_float_type("cross_entropy_grad", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::cross_entropy::backward", shape.rows,
                 CrossEntropyBackward<T>{shape.vocab, shape.first, static_cast<const T*>(logits), targets,
                                         lse, static_cast<T*>(dlogits), bf16_engine::serves_rows(t)});
  });
}

}  // namespace weft::kernels
