// Attention by Kokkos teams, for any back end. A team of threads owns 16 queries (or, for dk and dv, 16 keys)
// of one head, with its sums in team scratch of at most 37 KB. No two teams add to the same element, so the
// result is deterministic. Two backward kernels compute the probabilities twice; this buys parallelism over
// blocks of keys without atomics.
#include <fmt/core.h>

#include <stdexcept>

#include "base/limits.hpp"
#include "kernels/attention_backends.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/kokkos_space.hpp"
#include "kernels/math.hpp"

namespace weft::kernels::team {

namespace {

constexpr int rows = static_cast<int>(limits::attention_queries);  ///< queries or keys that a team owns
constexpr int columns = 32;                                        ///< keys or queries that pass by at a time
/// A score whose power is zero; it is finite, because a row may begin with nothing else.
constexpr float never = -1e30f;

KOKKOS_INLINE_FUNCTION std::int64_t least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
KOKKOS_INLINE_FUNCTION std::int64_t most(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}

/// Finds elements of [R, B, Tq, H, D], [B, T, Hkv, D] and [R, B, H, Tq]. A run here is one of those of all
/// sequences, run * B + sequence, and a query is named by its number in its run.
struct Index {
  AttentionShape s;
  const std::int32_t* positions;  ///< null without documents
  std::int64_t runs, queries;     ///< R * B, and Tq
  std::int64_t begins[2];         ///< the index in the sequence of a run's first query

  Index(const AttentionShape& shape, const std::int32_t* of_queries)
      : s(shape),
        positions(of_queries),
        runs(s.runs() * s.batch),
        queries(s.queries()),
        begins{s.first(0), s.first(1)} {}

  KOKKOS_FUNCTION std::int64_t query(std::int64_t run, std::int64_t i, std::int64_t h) const {
    return ((run * queries + i) * s.heads + h) * s.head_dim;
  }
  KOKKOS_FUNCTION std::int64_t key(std::int64_t b, std::int64_t t, std::int64_t kv) const {
    return ((b * s.seq + t) * s.kv_heads + kv) * s.head_dim;
  }
  KOKKOS_FUNCTION std::int64_t row(std::int64_t run, std::int64_t h, std::int64_t i) const {
    return (run * s.heads + h) * queries + i;
  }
  KOKKOS_FUNCTION std::int64_t sequence(std::int64_t run) const {
    return run < s.batch ? run : run - s.batch;
  }
  /// The last key that a query sees, which is its own.
  KOKKOS_FUNCTION std::int64_t last_key(std::int64_t run, std::int64_t i) const {
    return begins[run < s.batch ? 0 : 1] + i;
  }
  /// The first key that a query sees.
  KOKKOS_FUNCTION std::int64_t first_key(std::int64_t run, std::int64_t i) const {
    return positions == nullptr ? 0 : last_key(run, i) - positions[run * queries + i];
  }
  /// Whether there is such a query, and it sees the key.
  KOKKOS_FUNCTION bool sees(std::int64_t run, std::int64_t i, std::int64_t key) const {
    return i < queries && key <= last_key(run, i) && key >= first_key(run, i);
  }
  KOKKOS_FUNCTION std::int64_t group() const { return s.heads / s.kv_heads; }
  KOKKOS_FUNCTION std::int64_t query_blocks() const { return (queries + rows - 1) / rows; }
  KOKKOS_FUNCTION std::int64_t key_blocks() const { return (s.seq + rows - 1) / rows; }
  KOKKOS_FUNCTION float scale() const { return 1.0f / Kokkos::sqrt(static_cast<float>(s.head_dim)); }
};

template <class A, class B>
KOKKOS_INLINE_FUNCTION float dot(const A* a, const B* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += to_float(a[i]) * to_float(b[i]);
  return sum;
}

template <class Member, class F>
KOKKOS_INLINE_FUNCTION void each(const Member& member, std::int64_t n, const F& f) {
  Kokkos::parallel_for(Kokkos::TeamThreadRange(member, n), f);
  member.team_barrier();
}

template <class Member>
KOKKOS_INLINE_FUNCTION float* scratch(const Member& member, std::int64_t count) {
  return static_cast<float*>(member.team_shmem().get_shmem(static_cast<std::size_t>(count) * sizeof(float)));
}

template <class T>
struct TeamForward {
  Index index;
  const T* q;
  const T* k;
  const T* v;
  T* o;
  float* lse;

  static constexpr std::size_t scratch_bytes(const AttentionShape& s) {
    return static_cast<std::size_t>(rows * s.head_dim + rows * columns + 3 * rows) * sizeof(float);
  }

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const AttentionShape& s = index.s;
    const std::int64_t item = member.league_rank();
    const std::int64_t first = item % index.query_blocks() * rows;
    const std::int64_t h = item / index.query_blocks() % s.heads;
    const std::int64_t run = item / index.query_blocks() / s.heads;
    const std::int64_t b = index.sequence(run);
    const std::int64_t kv = h / index.group();
    const std::int64_t own = least(rows, index.queries - first);
    const std::int64_t end = index.last_key(run, first) + own;
    const std::int64_t dim = s.head_dim;
    float* sum = scratch(member, rows * dim);  // sum of p v
    float* p = scratch(member, rows * columns);
    float* largest = scratch(member, 3 * rows);
    float* total = largest + rows;
    float* rescale = total + rows;

    each(member, rows * dim, [&](std::int64_t i) { sum[i] = 0; });
    each(member, rows, [&](std::int64_t i) {
      largest[i] = never;
      total[i] = 0;
    });
    for (std::int64_t begin = index.first_key(run, first); begin < end; begin += columns) {
      each(member, rows * columns, [&](std::int64_t i) {
        const std::int64_t query = first + i / columns;
        const std::int64_t key = begin + i % columns;
        p[i] = index.sees(run, query, key)
                   ? index.scale() * dot(q + index.query(run, query, h), k + index.key(b, key, kv), dim)
                   : never;
      });
      each(member, own,
           [&](std::int64_t i) { online_softmax(p + i * columns, largest[i], total[i], rescale[i]); });
      each(member, own * dim, [&](std::int64_t i) {
        const float* weights = p + i / dim * columns;
        float x = sum[i] * rescale[i / dim];
        for (std::int64_t j = 0; j < least(columns, s.seq - begin); ++j)
          x += weights[j] * to_float(v[index.key(b, begin + j, kv) + i % dim]);
        sum[i] = x;
      });
    }
    each(member, own * dim, [&](std::int64_t i) {
      o[index.query(run, first + i / dim, h) + i % dim] = from_float<T>(sum[i] / total[i / dim]);
    });
    each(member, own,
         [&](std::int64_t i) { lse[index.row(run, h, first + i)] = largest[i] + Kokkos::log(total[i]); });
  }

  KOKKOS_FUNCTION static void online_softmax(float* scores, float& largest, float& total, float& rescale) {
    float next = largest;
    for (int j = 0; j < columns; ++j) next = scores[j] > next ? scores[j] : next;
    rescale = exp_f32(largest - next);
    total *= rescale;
    for (int j = 0; j < columns; ++j) {
      scores[j] = exp_f32(scores[j] - next);
      total += scores[j];
    }
    largest = next;
  }
};

/// delta [R, B, H, Tq] = sum over D of dout * o.
template <class T>
struct Delta {
  Index index;
  const T* o;
  const T* dout;
  float* delta;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const AttentionShape& s = index.s;
    const std::int64_t queries = index.queries;
    const std::int64_t at = index.query(i / queries / s.heads, i % queries, i / queries % s.heads);
    delta[i] = dot(dout + at, o + at, s.head_dim);
  }
};

/// The operands that both backward kernels read.
template <class T>
struct BackwardInputs {
  Index index;
  const T* q;
  const T* k;
  const T* v;
  const float* lse;
  const T* dout;
  const float* delta;

  /// Computes p and ds = p * (dp - delta) for one query and one key; zeros where the query does not see the
  /// key.
  KOKKOS_FUNCTION void scores(std::int64_t run, std::int64_t h, std::int64_t query, std::int64_t key,
                              float& p, float& ds) const {
    p = ds = 0;
    if (!index.sees(run, query, key)) return;
    const std::int64_t at_query = index.query(run, query, h);
    const std::int64_t at_key = index.key(index.sequence(run), key, h / index.group());
    const std::int64_t at_row = index.row(run, h, query);
    p = exp_f32(index.scale() * dot(q + at_query, k + at_key, index.s.head_dim) - lse[at_row]);
    ds = p * (dot(dout + at_query, v + at_key, index.s.head_dim) - delta[at_row]);
  }
};

template <class T>
struct QueryGrad {
  BackwardInputs<T> in;
  T* dq;

  static constexpr std::size_t scratch_bytes(const AttentionShape& s) {
    return static_cast<std::size_t>(rows * s.head_dim + rows * columns) * sizeof(float);
  }

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const Index& index = in.index;
    const AttentionShape& s = index.s;
    const std::int64_t item = member.league_rank();
    const std::int64_t first = item % index.query_blocks() * rows;
    const std::int64_t h = item / index.query_blocks() % s.heads;
    const std::int64_t run = item / index.query_blocks() / s.heads;
    const std::int64_t b = index.sequence(run);
    const std::int64_t own = least(rows, index.queries - first);
    const std::int64_t end = index.last_key(run, first) + own;
    const std::int64_t dim = s.head_dim;
    float* sum = scratch(member, rows * dim);
    float* ds = scratch(member, rows * columns);

    each(member, rows * dim, [&](std::int64_t i) { sum[i] = 0; });
    for (std::int64_t begin = index.first_key(run, first); begin < end; begin += columns) {
      each(member, rows * columns, [&](std::int64_t i) {
        float p;
        in.scores(run, h, first + i / columns, begin + i % columns, p, ds[i]);
      });
      each(member, own * dim, [&](std::int64_t i) {
        float x = sum[i];
        for (std::int64_t j = 0; j < least(columns, s.seq - begin); ++j)
          x += ds[i / dim * columns + j] *
               to_float(in.k[index.key(b, begin + j, h / index.group()) + i % dim]);
        sum[i] = x;
      });
    }
    each(member, own * dim, [&](std::int64_t i) {
      dq[index.query(run, first + i / dim, h) + i % dim] = from_float<T>(sum[i] * index.scale());
    });
  }
};

template <class T>
struct KeyValueGrad {
  BackwardInputs<T> in;
  T* dk;
  T* dv;

  static constexpr std::size_t scratch_bytes(const AttentionShape& s) {
    return static_cast<std::size_t>(2 * rows * s.head_dim + 2 * rows * columns) * sizeof(float);
  }

  template <class Member>
  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const Index& index = in.index;
    const AttentionShape& s = index.s;
    const std::int64_t item = member.league_rank();
    const std::int64_t first = item % index.key_blocks() * rows;  // the first key
    const std::int64_t kv = item / index.key_blocks() % s.kv_heads;
    const std::int64_t b = item / index.key_blocks() / s.kv_heads;
    const std::int64_t own = least(rows, s.seq - first);
    const std::int64_t dim = s.head_dim;
    float* sum_k = scratch(member, rows * dim);
    float* sum_v = scratch(member, rows * dim);
    float* p = scratch(member, rows * columns);
    float* ds = scratch(member, rows * columns);

    each(member, rows * dim, [&](std::int64_t i) { sum_k[i] = sum_v[i] = 0; });
    for (std::int64_t h = kv * index.group(); h < (kv + 1) * index.group(); ++h)
      for (std::int64_t run = b; run < index.runs; run += s.batch)
        for (std::int64_t begin = most(0, first - index.last_key(run, 0)); begin < index.queries;
             begin += columns) {
          each(member, rows * columns, [&](std::int64_t i) {
            in.scores(run, h, begin + i % columns, first + i / columns, p[i], ds[i]);
          });
          each(member, own * dim, [&](std::int64_t i) {
            float x = sum_k[i];
            float y = sum_v[i];
            for (std::int64_t j = 0; j < least(columns, index.queries - begin); ++j) {
              const std::int64_t at = index.query(run, begin + j, h) + i % dim;
              x += ds[i / dim * columns + j] * to_float(in.q[at]);
              y += p[i / dim * columns + j] * to_float(in.dout[at]);
            }
            sum_k[i] = x;
            sum_v[i] = y;
          });
        }
    each(member, own * dim, [&](std::int64_t i) {
      const std::int64_t at = index.key(b, first + i / dim, kv) + i % dim;
      dk[at] = from_float<T>(sum_k[i] * index.scale());
      dv[at] = from_float<T>(sum_v[i]);
    });
  }
};

template <class Functor>
void launch(Space& space, const char* name, const AttentionShape& shape, std::int64_t teams,
            const Functor& functor) {
  if (teams > limits::most_indices)
    throw std::logic_error(fmt::format("attention: {} teams are more than a launch has", teams));
  constexpr int team_size = runs_on_host ? 1 : 128;
  auto policy = Kokkos::TeamPolicy<Execution>(execution_of(space), static_cast<int>(teams), team_size);
  // It asks for a little more than is needed, because each piece may be padded to its alignment.
  constexpr std::size_t padding = 256;
  constexpr AttentionShape widest{1, 1, 1, 1, limits::most_head_dim};
  static_assert(block_starts(team_size, Functor::scratch_bytes(widest) + padding));
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Functor::scratch_bytes(shape) + padding)));
  Kokkos::parallel_for(name, policy, functor);
}

}  // namespace

void attention(Space& space, AttentionShape shape, DType t, const void* q, const void* k, const void* v,
               void* o, float* lse, void* /*scratch*/, const std::int32_t* positions) {
  const Index index{shape, positions};
  with_float_type("attention", t, [&](auto type) {
    using T = decltype(type);
    launch(space, "weft::attention::forward", shape, index.runs * shape.heads * index.query_blocks(),
           TeamForward<T>{index, static_cast<const T*>(q), static_cast<const T*>(k), static_cast<const T*>(v),
                          static_cast<T*>(o), lse});
  });
}

void attention_grad(Space& space, AttentionShape shape, DType t, const AttentionGrad& g) {
  const Index index{shape, g.positions};
  auto* delta = static_cast<float*>(g.scratch);
  with_float_type("attention_grad", t, [&](auto type) {
    using T = decltype(type);
    const auto* dout = static_cast<const T*>(g.do_);
    using Policy = Kokkos::RangePolicy<Execution, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for("weft::attention::backward_delta",
                         Policy(execution_of(space), 0, index.runs * shape.heads * index.queries),
                         Delta<T>{index, static_cast<const T*>(g.o), dout, delta});
    const BackwardInputs<T> in{index,
                               static_cast<const T*>(g.q),
                               static_cast<const T*>(g.k),
                               static_cast<const T*>(g.v),
                               g.lse,
                               dout,
                               delta};
    launch(space, "weft::attention::backward_query", shape, index.runs * shape.heads * index.query_blocks(),
           QueryGrad<T>{in, static_cast<T*>(g.dq)});
    launch(space, "weft::attention::backward_key_value", shape,
           shape.batch * shape.kv_heads * index.key_blocks(),
           KeyValueGrad<T>{in, static_cast<T*>(g.dk), static_cast<T*>(g.dv)});
  });
}

std::size_t attention_scratch_bytes(AttentionShape, DType) {
  return 0;
}

std::size_t attention_grad_scratch_bytes(AttentionShape s, DType) {
  return static_cast<std::size_t>(s.runs() * s.batch * s.heads * s.queries()) * sizeof(float);
}

}  // namespace weft::kernels::team
