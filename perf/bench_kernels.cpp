// Measures each kernel at the shapes of models, beside the limits of this machine, which are measured in the
// same process.
//
//   OMP_NUM_THREADS=1 build/cpu/perf/bench_kernels [--without_limits] [--benchmark_filter=REGEX]
//                                                  [OPTION OF GOOGLE BENCHMARK]...
//
// Two limits are measured first: memory bandwidth by a triad (a = b + c, three arrays of 128 MiB of fp32),
// and the fastest of several large square matmuls, for each type. "of_limit" in a line is what the kernel
// reaches of its limit, by its least bytes (each operand once) or its FLOPs (causal attention: half of all
// pairs). A profiler looks at one kernel, and needs no limits: --without_limits leaves them and "of_limit"
// out. A name is kernel/model/type. Operands are normal random numbers, because a device that is limited by
// its power multiplies simpler ones faster. On a device the time of 5 ms of runs is taken at once, because
// the host's wait for their end takes some microseconds; they take turns on two sets of operands, because
// training finds fewer of them in a cache than a loop over one set. The models are
// - 33m: dim 512, ffn 1536, 8 heads, 4 kv heads, vocab 8192, 4 sequences of 512;
// - 8b: dim 4096, ffn 14336, 32 heads, 8 kv heads, vocab 128256, one sequence of 8192;
// - odd: nothing divides anything.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/device.hpp"
#include "base/step_block.hpp"
#include "kernels/attention.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "kernels/matmul.hpp"
#include "kernels/memory.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/swiglu.hpp"
#include "kernels/update.hpp"
#include "measure/noise.hpp"

namespace weft {
namespace {

using kernels::Buffer;
using kernels::Space;

struct Model {
  std::string name;
  std::int64_t batch, seq, dim, ffn, heads, kv_heads, head_dim, vocab;
  std::int64_t rows() const { return batch * seq; }
};
const std::vector<Model> models{{"33m", 4, 512, 512, 1536, 8, 4, 64, 8192},
                                {"8b", 1, 8192, 4096, 14336, 32, 8, 128, 128256},
                                {"odd", 3, 333, 330, 1001, 6, 3, 55, 4099}};

/// A buffer in huge pages, however small it is, as in a plan's arena.
Buffer room_for(std::size_t bytes) {
  return {std::max(bytes, std::size_t{2} << 20), "bench"};
}

/// Normal numbers, of type f32 or bf16.
Buffer filled(Space& space, std::int64_t elements, DType t) {
  static const measure::Noise noise(space);
  const Buffer numbers = noise.buffer(elements, t);
  Buffer buffer = room_for(numbers.size());
  kernels::copy(space, buffer.data(), numbers.data(), numbers.size());
  fence(space);
  return buffer;
}

Buffer integers(Space& space, std::int64_t n, std::int64_t below) {
  std::vector<std::int32_t> host(static_cast<std::size_t>(n));
  Buffer buffer = room_for(host.size() * sizeof host[0]);
  for (std::size_t i = 0; i < host.size(); ++i)
    host[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * 7919 % below);
  copy_to_device(space, buffer.data(), host.data(), host.size() * sizeof host[0]);
  fence(space);
  return buffer;
}

/// A kernel ready to run, and what it moves or computes.
struct Load {
  std::vector<Buffer> buffers;
  std::function<void()> run;
  double bytes = 0, flops = 0;  ///< one of the two is set
};

/// The same kernel on the sets of operands that its runs take turns on.
std::vector<Load> make_sets(const std::function<Load()>& make) {
  std::vector<Load> sets;
  for (int i = 0; i < (device_is_host() ? 1 : 2); ++i) sets.push_back(make());
  return sets;
}

void run_in_turn(Space& space, const std::vector<Load>& sets, std::int64_t runs) {
  for (std::int64_t i = 0; i < runs; ++i) sets[static_cast<std::size_t>(i) % sets.size()].run();
  fence(space);
}

/// Warms up, and says how many runs are to be timed at once: a multiple of the sets.
std::int64_t runs_at_once(Space& space, const std::vector<Load>& sets) {
  const auto once = static_cast<std::int64_t>(sets.size());
  run_in_turn(space, sets, once);
  if (device_is_host()) return once;
  const double begin = seconds_now();
  run_in_turn(space, sets, once);
  return once * std::max<std::int64_t>(1, std::llround(5e-3 / (seconds_now() - begin)));
}

double best_seconds(Space& space, int repeats, const std::vector<Load>& sets) {
  const std::int64_t runs = runs_at_once(space, sets);
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const double begin = seconds_now();
    run_in_turn(space, sets, runs);
    best = std::min(best, (seconds_now() - begin) / static_cast<double>(runs));
  }
  return best;
}

/// The bytes a second of a triad: `add` reads two arrays and writes the third.
double triad(Space& space) {
  constexpr std::int64_t n = 32 << 20;
  const auto make = [&space] {
    Load load;
    for (int i = 0; i < 3; ++i) load.buffers.push_back(filled(space, n, DType::f32));
    load.run = [&space, a = load.buffers[0].data(), b = load.buffers[1].data(), c = load.buffers[2].data()] {
      kernels::add(space, n, DType::f32, a, b, c);
    };
    return load;
  };
  return 12.0 * n / best_seconds(space, 10, make_sets(make));
}

/// The FLOP/s of the best large matmul. f32 products are made in the way that is faster here, so this is a
/// limit for both ways.
double best_matmul(Space& space, DType t) {
  double best = 0;
  // Sizes that fill a device would take minutes on a host.
  const std::vector<std::int64_t> sizes =
      device_is_host() ? std::vector<std::int64_t>{1024, 2048, 3072} : std::vector<std::int64_t>{4096, 8192};
  for (const std::int64_t n : sizes) {
    kernels::Matmul matmul({kernels::MatmulForm::forward, n, n, n, t, t});
    const auto make = [&] {
      Load load;
      for (int i = 0; i < 3; ++i) load.buffers.push_back(filled(space, n * n, t));
      load.buffers.push_back(room_for(matmul.scratch_bytes()));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      load.run = [&space, &matmul, a = p(0), b = p(1), c = p(2), scratch = p(3)] {
        matmul.run(space, a, b, c, scratch);
      };
      return load;
    };
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / best_seconds(space, 5, make_sets(make)));
  }
  return best;
}

/// What this machine reaches.
struct Limits {
  double bytes_per_s;
  std::array<double, 2> matmul_flops;  ///< FLOP/s of the best matmul in f32, and in bf16
};

Limits measure_limits(Space& space) {
  const Limits limits{triad(space), {best_matmul(space, DType::f32), best_matmul(space, DType::bf16)}};
  std::printf("%d threads: triad %.1f GB/s, matmul f32 %.0f, bf16 %.0f GFLOP/s\n", kernels::concurrency(),
              limits.bytes_per_s / 1e9, limits.matmul_flops[0] / 1e9, limits.matmul_flops[1] / 1e9);
  return limits;
}

class Bench {
 public:
  /// Registers all benchmarks. Their lines have "of_limit" where there are limits.
  Bench(Space& space, const std::optional<Limits>& limits) : space_(space), limits_(limits) {
    for (const Model& m : models)
      for (const DType t : {DType::f32, DType::bf16}) add_model(m, t);
  }

 private:
  using Make = std::function<Load(Space&)>;

  void add(const std::string& kernel, const Model& m, DType t, Make make) {
    const std::string name = kernel + "/" + m.name + "/" + std::string(name_of(t));
    benchmark::RegisterBenchmark(
        name.c_str(),
        [this, t, make = std::move(make)](benchmark::State& state) {
          const std::vector<Load> sets = make_sets([&] { return make(space_); });
          const std::int64_t runs = runs_at_once(space_, sets);
          while (state.KeepRunningBatch(runs)) run_in_turn(space_, sets, runs);
          const Load& load = sets.front();
          const double work = load.flops > 0 ? load.flops : load.bytes;
          using benchmark::Counter;
          const auto rate = Counter::kIsIterationInvariantRate;
          state.counters[load.flops > 0 ? "GFLOP/s" : "GB/s"] = Counter(work / 1e9, rate);
          if (!limits_) return;
          const double limit =
              load.flops > 0 ? limits_->matmul_flops[t == DType::bf16 ? 1 : 0] : limits_->bytes_per_s;
          state.counters["of_limit"] = Counter(work / limit, rate);
        })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }

  void add_matmul(const std::string& what, const Model& m, DType t, std::int64_t rows, std::int64_t in,
                  std::int64_t out) {
    using kernels::MatmulForm;
    const std::array<std::pair<const char*, MatmulForm>, 3> forms{
        {{"", MatmulForm::forward}, {"_dgrad", MatmulForm::dgrad}, {"_wgrad", MatmulForm::wgrad}}};
    for (const auto& [suffix, form] : forms) {
      const auto make = [=](Space& space, F32Products f32) {
        Load load;
        const std::int64_t x = rows * in, w = in * out, y = rows * out;
        const std::array<std::int64_t, 3> sizes = form == MatmulForm::forward ? std::array{x, w, y}
                                                  : form == MatmulForm::dgrad ? std::array{y, w, x}
                                                                              : std::array{y, x, w};
        for (const std::int64_t n : sizes) load.buffers.push_back(filled(space, n, t));
        auto matmul =
            std::make_shared<kernels::Matmul>(kernels::MatmulSpec{form, rows, in, out, t, t, false, f32});
        load.buffers.push_back(room_for(matmul->scratch_bytes()));
        load.run = [&space, matmul, a = load.buffers[0].data(), b = load.buffers[1].data(),
                    c = load.buffers[2].data(),
                    s = load.buffers[3].data()] { matmul->run(space, a, b, c, s); };
        load.flops = 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
        return load;
      };
      add("matmul_" + what + suffix, m, t, [=](Space& space) { return make(space, F32Products::split); });
      if (t == DType::f32)
        add("plain_matmul_" + what + suffix, m, t,
            [=](Space& space) { return make(space, F32Products::plain); });
    }
  }

  void add_attention(const Model& m, DType t) {
    const kernels::AttentionShape s{m.batch, m.seq, m.heads, m.kv_heads, m.head_dim};
    const std::int64_t queries = m.rows() * m.heads * m.head_dim, keys = m.rows() * m.kv_heads * m.head_dim;
    const double pairs = 0.5 * static_cast<double>(m.rows()) * static_cast<double>(m.seq) *
                         static_cast<double>(m.heads * m.head_dim);
    const auto forward = [=](Space& space) {
      Load load;
      for (const std::int64_t n : {queries, keys, keys, queries}) load.buffers.push_back(filled(space, n, t));
      load.buffers.push_back(filled(space, m.rows() * m.heads, DType::f32));
      load.buffers.push_back(room_for(attention_scratch_bytes(s, t)));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      load.run = [&space, s, t, q = p(0), k = p(1), v = p(2), o = p(3), lse = reinterpret_cast<float*>(p(4)),
                  scratch = p(5)] { kernels::attention(space, s, t, q, k, v, o, lse, scratch); };
      load.flops = 4 * pairs;
      return load;
    };
    add("attention", m, t, forward);
    add("attention_grad", m, t, [=](Space& space) {
      Load load = forward(space);
      load.run();  // makes o and lse of q, k and v
      for (const std::int64_t n : {queries, queries, keys, keys}) load.buffers.push_back(filled(space, n, t));
      load.buffers.push_back(room_for(attention_grad_scratch_bytes(s, t)));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      const kernels::AttentionGrad g{p(0), p(1), p(2), p(3), reinterpret_cast<float*>(p(4)),
                                     p(6), p(7), p(8), p(9), p(10)};
      load.run = [&space, s, t, g] { kernels::attention_grad(space, s, t, g); };
      load.flops = 10 * pairs;
      return load;
    });
  }

  /// Makes `arrays` of `n` elements each, and passes them to `call` as pointers.
  template <class Call>
  void add_elementwise(const std::string& kernel, const Model& m, DType t, std::int64_t n, std::size_t arrays,
                       Call call) {
    add(kernel, m, t, [=](Space& space) {
      Load load;
      std::vector<std::byte*> p;
      for (std::size_t i = 0; i < arrays; ++i) {
        load.buffers.push_back(filled(space, n, t));
        p.push_back(load.buffers.back().data());
      }
      load.run = [&space, call, n, t, p] { call(space, n, t, p); };
      load.bytes = static_cast<double>(arrays * size_of(t)) * static_cast<double>(n);
      return load;
    });
  }

  void add_norms(const Model& m, DType t) {
    const kernels::RowShape s{m.rows(), m.dim};
    const auto forward = [=](Space& space) {
      Load load;
      load.buffers.push_back(filled(space, s.rows * s.dim, t));
      load.buffers.push_back(filled(space, s.dim, DType::f32));  // the weight, as the deck has it by default
      load.buffers.push_back(filled(space, s.rows * s.dim, t));
      load.buffers.push_back(filled(space, s.rows, DType::f32));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      load.run = [&space, s, t, x = p(0), w = p(1), y = p(2), rstd = reinterpret_cast<float*>(p(3))] {
        kernels::rms_norm(space, s, t, x, w, DType::f32, 1e-5F, y, rstd);
      };
      load.bytes = 2.0 * static_cast<double>(size_of(t)) * static_cast<double>(s.rows * s.dim);
      return load;
    };
    add("rms_norm", m, t, forward);
    add("add_rms_norm", m, t, [=](Space& space) {
      Load load = forward(space);
      for (int i = 0; i < 2; ++i) load.buffers.push_back(filled(space, s.rows * s.dim, t));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      load.run = [&space, s, t, x = p(0), w = p(1), y = p(2), rstd = reinterpret_cast<float*>(p(3)),
                  branch = p(4), sum = p(5)] {
        kernels::add_rms_norm(space, s, t, x, branch, w, DType::f32, 1e-5F, sum, y, rstd);
      };
      load.bytes = 4.0 * static_cast<double>(size_of(t)) * static_cast<double>(s.rows * s.dim);
      return load;
    });
    add("rms_norm_grad", m, t, [=](Space& space) {
      Load load = forward(space);
      load.run();
      for (const std::int64_t n : {s.rows * s.dim, s.rows * s.dim, s.rows * s.dim})
        load.buffers.push_back(filled(space, n, t));
      load.buffers.push_back(filled(space, s.dim, DType::f32));
      load.buffers.push_back(room_for(rms_norm_grad_scratch_bytes(s)));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      const kernels::RmsNormGrad g{
          p(0), p(1), DType::f32, reinterpret_cast<float*>(p(3)), p(4), p(5), p(6), p(7), DType::f32, p(8)};
      load.run = [&space, s, t, g] { kernels::rms_norm_grad(space, s, t, g); };
      load.bytes = 4.0 * static_cast<double>(size_of(t)) * static_cast<double>(s.rows * s.dim);
      return load;
    });
  }

  void add_embedding(const Model& m, DType t) {
    const kernels::EmbeddingShape s{m.rows(), m.vocab, m.dim};
    const auto make = [=](Space& space, bool gradient) {
      Load load;
      load.buffers.push_back(integers(space, s.rows, s.vocab));
      load.buffers.push_back(filled(space, s.vocab * s.dim, t));
      load.buffers.push_back(filled(space, s.rows * s.dim, t));
      load.buffers.push_back(room_for(embedding_grad_scratch_bytes(s)));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      load.run = [&space, s, t, gradient, tokens = reinterpret_cast<const std::int32_t*>(p(0)), table = p(1),
                  y = p(2), scratch = p(3)] {
        if (gradient)
          kernels::embedding_grad(space, s, t, tokens, y, t, table, scratch);
        else
          kernels::embedding(space, s, t, tokens, table, y);
      };
      const auto size = static_cast<double>(size_of(t));
      load.bytes = size * static_cast<double>(gradient ? (s.rows + s.vocab) * s.dim : 2 * s.rows * s.dim);
      return load;
    };
    add("embedding", m, t, [make](Space& space) { return make(space, false); });
    add("embedding_grad", m, t, [make](Space& space) { return make(space, true); });
  }

  void add_rope(const Model& m, DType t) {
    const kernels::QkvShape s{m.rows(), m.heads, m.kv_heads, m.head_dim / 2 * 2};
    const std::int64_t queries = s.rows * s.heads * s.head_dim, keys = s.rows * s.kv_heads * s.head_dim;
    const auto make = [=, seq = m.seq](Space& space, bool gradient) {
      Load load;
      load.buffers.push_back(filled(space, queries + 2 * keys, t));
      load.buffers.push_back(integers(space, s.rows, seq));
      load.buffers.push_back(filled(space, seq * s.head_dim, DType::f32));
      for (const std::int64_t n : {queries, keys, keys}) load.buffers.push_back(filled(space, n, t));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      load.run = [&space, s, t, gradient, qkv = p(0), positions = reinterpret_cast<const std::int32_t*>(p(1)),
                  table = reinterpret_cast<const float*>(p(2)), q = p(3), k = p(4), v = p(5)] {
        if (gradient)
          kernels::rope_join(space, s, t, q, k, v, positions, table, qkv);
        else
          kernels::rope_split(space, s, t, qkv, positions, table, q, k, v);
      };
      load.bytes = 2.0 * static_cast<double>(size_of(t)) * static_cast<double>(queries + 2 * keys);
      return load;
    };
    add("rope_split", m, t, [make](Space& space) { return make(space, false); });
    add("rope_join", m, t, [make](Space& space) { return make(space, true); });
  }

  /// Adds AdamW on as many parameters as a layer has.
  void add_adamw(const Model& m, DType t) {
    const std::int64_t n = m.dim * (2 * m.heads * m.head_dim + 2 * m.kv_heads * m.head_dim + 3 * m.ffn);
    add("adamw", m, t, [=](Space& space) {
      Load load;
      for (int i = 0; i < 4; ++i) load.buffers.push_back(filled(space, n, DType::f32));
      load.buffers.push_back(filled(space, n, t));
      load.buffers.push_back(filled(space, sizeof(StepBlock), DType::f32));
      load.buffers.push_back(filled(space, 2, DType::f32));
      kernels::fill_zero(space, load.buffers[5].data(), load.buffers[5].size());
      const auto f = [&](std::size_t i) { return reinterpret_cast<float*>(load.buffers[i].data()); };
      kernels::AdamW adam{};
      adam.beta1 = 0.9;
      adam.beta2 = 0.95;
      adam.eps = 1e-8F;
      adam.step = reinterpret_cast<const StepBlock*>(load.buffers[5].data());
      adam.scale = f(6);
      void* const narrow = t == DType::bf16 ? load.buffers[4].data() : nullptr;
      load.run = [&space, n, adam, g = f(0), w = f(1), a = f(2), b = f(3), t, narrow] {
        kernels::adamw(space, n, adam, g, w, a, b, t, narrow);
      };
      load.bytes = (t == DType::bf16 ? 30.0 : 28.0) * static_cast<double>(n);
      return load;
    });
  }

  /// Adds the losses on a chunk of the head's rows.
  void add_loss(const Model& m, DType t) {
    const kernels::LossShape s{std::min<std::int64_t>(m.rows(), 512), m.vocab};
    const auto make = [=](Space& space, bool gradient) {
      Load load;
      load.buffers.push_back(filled(space, s.rows * s.vocab, t));
      load.buffers.push_back(integers(space, s.rows, s.vocab));
      load.buffers.push_back(filled(space, s.rows, DType::f32));
      load.buffers.emplace_back(2 * sizeof(double), "bench");
      load.buffers.push_back(room_for(cross_entropy_scratch_bytes(s)));
      load.buffers.push_back(filled(space, s.rows * s.vocab, t));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      load.run = [&space, s, t, gradient, z = p(0), targets = reinterpret_cast<const std::int32_t*>(p(1)),
                  lse = reinterpret_cast<float*>(p(2)), totals = reinterpret_cast<double*>(p(3)),
                  scratch = p(4), dz = p(5)] {
        if (gradient)
          kernels::cross_entropy_grad(space, s, t, z, targets, lse, dz);
        else
          kernels::cross_entropy(space, s, t, z, targets, lse, totals, scratch);
      };
      load.bytes =
          (gradient ? 2.0 : 1.0) * static_cast<double>(size_of(t)) * static_cast<double>(s.rows * s.vocab);
      return load;
    };
    add("cross_entropy", m, t, [make](Space& space) { return make(space, false); });
    add("cross_entropy_grad", m, t, [make](Space& space) { return make(space, true); });
  }

  void add_head(const Model& m, DType t) {
    add("linear_cross_entropy_grad", m, t, [=](Space& space) {
      Load load;
      const std::int64_t rows = std::min<std::int64_t>(m.rows(), 512);
      auto head = std::make_shared<kernels::LinearCrossEntropy>(
          kernels::LinearCrossEntropySpec{rows, m.dim, m.vocab, 256, t, t});
      load.buffers.push_back(filled(space, rows * m.dim, t));
      load.buffers.push_back(filled(space, m.vocab * m.dim, t));
      load.buffers.push_back(integers(space, rows, m.vocab));
      load.buffers.emplace_back(2 * sizeof(double), "bench");
      load.buffers.push_back(filled(space, rows * m.dim, t));
      load.buffers.push_back(filled(space, m.vocab * m.dim, t));
      load.buffers.push_back(room_for(head->gradients_scratch_bytes()));
      const auto p = [&](std::size_t i) { return load.buffers[i].data(); };
      load.run = [&space, head, h = p(0), w = p(1), y = reinterpret_cast<const std::int32_t*>(p(2)),
                  totals = reinterpret_cast<double*>(p(3)), dh = p(4), dw = p(5),
                  scratch = p(6)] { head->gradients(space, h, w, y, totals, dh, dw, scratch); };
      load.flops =
          6.0 * static_cast<double>(rows) * static_cast<double>(m.dim) * static_cast<double>(m.vocab);
      return load;
    });
  }

  void add_model(const Model& m, DType t) {
    add_matmul("qkv", m, t, m.rows(), m.dim, (m.heads + 2 * m.kv_heads) * m.head_dim);
    add_matmul("proj", m, t, m.rows(), m.heads * m.head_dim, m.dim);
    add_matmul("gate_up", m, t, m.rows(), m.dim, 2 * m.ffn);
    add_matmul("down", m, t, m.rows(), m.ffn, m.dim);
    add_attention(m, t);
    add_head(m, t);
    add_loss(m, t);
    add_norms(m, t);
    add_rope(m, t);
    add_elementwise("swiglu", m, t, m.rows() * m.ffn, 3,
                    [f = m.ffn](Space& space, std::int64_t n, DType type, const auto& p) {
                      kernels::swiglu(space, {n / f, f, f}, type, p[0], p[1], p[2]);
                    });
    add_elementwise("swiglu_grad", m, t, m.rows() * m.ffn, 5,
                    [f = m.ffn](Space& space, std::int64_t n, DType type, const auto& p) {
                      kernels::swiglu_grad(space, {n / f, f, f}, type, p[0], p[1], p[2], p[3], p[4]);
                    });
    add_elementwise("add", m, t, m.rows() * m.dim, 3,
                    [](Space& space, std::int64_t n, DType type, const auto& p) {
                      kernels::add(space, n, type, p[0], p[1], p[2]);
                    });
    add_embedding(m, t);
    add_adamw(m, t);
  }

  Space& space_;
  std::optional<Limits> limits_;
};

/// Takes an option of this program out of the arguments, because Google Benchmark refuses what it does not
/// know.
bool take_option(int& argc, char** argv, std::string_view option) {
  char** const end = std::remove(argv + 1, argv + argc, option);
  const bool given = end != argv + argc;
  argc = static_cast<int>(end - argv);
  return given;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const bool without_limits = weft::take_option(argc, argv, "--without_limits");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  weft::kernels::initialize(false);
  {
    weft::kernels::Space space;
    std::optional<weft::Limits> limits;
    if (!without_limits) limits = weft::measure_limits(space);
    const weft::Bench bench(space, limits);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();  // the benchmarks hold memory that must be freed before Kokkos ends
  }
  weft::kernels::finalize();
  return 0;
}
