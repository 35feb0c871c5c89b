// Matrix products of other libraries at the shapes of perf/bench_kernels. Prints a line of JSON
// {"library": name, "matmul_.../model/type": milliseconds, ...}, the medians of SECONDS of repetitions each:
//
//   products SECONDS MODEL...
//
// perf/compare_products.py compiles it once for each library:
// - with WITH_ONEDNN, for oneDNN's matmul, on operands as a training step has them: packed in each call.
// - else for libxsmm's batch-reduce kernels, on operands that are packed before the clock runs: a bound for
//   the library, because a step would pack them in each call. Of several sizes of blocks the fastest is
//   taken.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>
#ifdef WITH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#else
#include <libxsmm.h>
#endif

namespace {

using Size = std::int64_t;

/// C [m, n] = A [m, k] B [k, n]. How A and B lie in memory: as written, or transposed.
struct Shape {
  Size m, n, k;
  bool a_transposed, b_transposed;
};

std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float to_f32(std::uint16_t x) {
  return std::bit_cast<float>(std::uint32_t{x} << 16);
}
float to_f32(float x) {
  return x;
}

/// Room for elements of T, aligned to 2 MiB so that the kernel may use large pages.
template <class T>
std::shared_ptr<T[]> room(Size n) {
  const std::size_t page = 1 << 21, bytes = (static_cast<std::size_t>(n) * sizeof(T) / page + 1) * page;
  return {static_cast<T*>(std::aligned_alloc(page, bytes)), std::free};
}

template <class T>
std::shared_ptr<T[]> normal_numbers(Size n) {
  static std::mt19937 generator;
  static std::normal_distribution<float> normal;
  static const std::vector<float> some = [] {
    std::vector<float> numbers(65537);  // a prime: rows differ
    for (float& x : numbers) x = normal(generator);
    return numbers;
  }();
  auto numbers = room<T>(n);
  for (Size i = 0; i < n; ++i) {
    const float x = some[static_cast<std::size_t>(i) % some.size()];
    if constexpr (sizeof(T) == 2)
      numbers[i] = to_bf16(x);
    else
      numbers[i] = x;
  }
  return numbers;
}

/// Operands of one product, and its result.
template <class T>
struct Operands {
  explicit Operands(const Shape& s)
      : shape(s), a(normal_numbers<T>(s.m * s.k)), b(normal_numbers<T>(s.k * s.n)), c(room<T>(s.m * s.n)) {}
  float a_at(Size i, Size p) const {
    return to_f32(a[shape.a_transposed ? p * shape.m + i : i * shape.k + p]);
  }
  float b_at(Size p, Size j) const {
    return to_f32(b[shape.b_transposed ? j * shape.k + p : p * shape.n + j]);
  }
  /// A few elements, beside sums in double.
  bool is_right() const {
    for (int t = 0; t < 97; ++t) {
      const Size i = t * 7919 % shape.m, j = t * 104729 % shape.n;
      double sum = 0;
      for (Size p = 0; p < shape.k; ++p)
        sum += static_cast<double>(a_at(i, p)) * static_cast<double>(b_at(p, j));
      if (!(std::abs(sum - static_cast<double>(to_f32(c[i * shape.n + j]))) <=
            0.01 * (std::abs(sum) + std::sqrt(static_cast<double>(shape.k)))))
        return false;
    }
    return true;
  }
  Shape shape;
  std::shared_ptr<T[]> a, b, c;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median_milliseconds(const std::function<void()>& run, double seconds) {
  run();
  std::vector<double> times;
  for (const double end = now() + seconds; times.size() < 3 || now() < end;) {
    const double begin = now();
    run();
    times.push_back(now() - begin);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return 1e3 * times[times.size() / 2];
}

#ifdef WITH_ONEDNN

template <class T>
std::vector<std::function<void()>> ways(const Operands<T>& o) {
  using Tag = dnnl::memory::format_tag;
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(cpu);
  const auto type = sizeof(T) == 2 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const dnnl::memory::desc a({o.shape.m, o.shape.k}, type, o.shape.a_transposed ? Tag::ba : Tag::ab);
  const dnnl::memory::desc b({o.shape.k, o.shape.n}, type, o.shape.b_transposed ? Tag::ba : Tag::ab);
  const dnnl::memory::desc c({o.shape.m, o.shape.n}, type, Tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(cpu, a, b, c, attributes);
#else
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, cpu);
#endif
  auto scratch = room<char>(static_cast<Size>(description.scratchpad_desc().get_size()));
  const std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, {a, cpu, o.a.get()}},
      {DNNL_ARG_WEIGHTS, {b, cpu, o.b.get()}},
      {DNNL_ARG_DST, {c, cpu, o.c.get()}},
      {DNNL_ARG_SCRATCHPAD, {description.scratchpad_desc(), cpu, scratch.get()}}};
  return {[matmul = dnnl::matmul(description), arguments, scratch] {
    matmul.execute(stream, arguments);
    stream.wait();
  }};
}

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

#else

/// A product in blocks of `columns` by `rows` of C, each one call that sums over k in blocks of `depth`. What
/// libxsmm calls A is our B: its matrices are stored by columns. Blocks at the edges have kernels of their
/// own; k is filled up with zeros.
template <class T>
std::function<void()> in_blocks(const Operands<T>& o, Size columns, Size rows, Size depth) {
  const Shape& s = o.shape;
  const Size batch = (s.k + depth - 1) / depth, filled = batch * depth;
  const Size across = (s.n + columns - 1) / columns, down = (s.m + rows - 1) / rows;
  auto a = room<T>(down * rows * filled), b = room<T>(across * columns * filled);
  std::fill_n(a.get(), down * rows * filled, T{});
  std::fill_n(b.get(), across * columns * filled, T{});
  const auto raw_a = [&](Size i, Size p) { return o.a[s.a_transposed ? p * s.m + i : i * s.k + p]; };
  const auto raw_b = [&](Size p, Size j) { return o.b[s.b_transposed ? j * s.k + p : p * s.n + j]; };
  for (Size i = 0; i < s.m; ++i)
    for (Size p = 0; p < s.k; ++p)
      a[((i / rows * batch + p / depth) * rows + i % rows) * depth + p % depth] = raw_a(i, p);
  constexpr Size pair = sizeof(T) == 2 ? 2 : 1;  // elements of k that lie together
  for (Size p = 0; p < s.k; ++p)
    for (Size j = 0; j < s.n; ++j)
      b[(j / columns * batch + p / depth) * columns * depth +
        (p % depth / pair * columns + j % columns) * pair + p % pair] = raw_b(p, j);
  const auto kernel = [&](Size n, Size m) {
    const auto narrow = [](Size x) { return static_cast<libxsmm_blasint>(x); };
    const libxsmm_blasint lda = narrow(columns), ldb = narrow(depth), ldc = narrow(s.n),
                          stride = narrow(columns * depth * static_cast<Size>(sizeof(T))),
                          stride_b = narrow(rows * depth * static_cast<Size>(sizeof(T)));
    const float one = 1, zero = 0;
    if constexpr (pair == 2) {
      const int flags = LIBXSMM_GEMM_FLAG_VNNI_A;
      return libxsmm_bmmdispatch_reducebatch_strd_unroll(narrow(n), narrow(m), narrow(depth), stride,
                                                         stride_b, narrow(batch), &lda, &ldb, &ldc, &one,
                                                         &zero, &flags, nullptr);
    } else {
      return libxsmm_smmdispatch_reducebatch_strd_unroll(narrow(n), narrow(m), narrow(depth), stride,
                                                         stride_b, narrow(batch), &lda, &ldb, &ldc, &one,
                                                         &zero, nullptr, nullptr);
    }
  };
  const Size last_n = s.n - (across - 1) * columns, last_m = s.m - (down - 1) * rows;
  const auto inner = kernel(columns, rows), right = kernel(last_n, rows), lower = kernel(columns, last_m),
             corner = kernel(last_n, last_m);
  if (!inner || !right || !lower || !corner) {
    std::fprintf(stderr, "products: libxsmm has no kernel for this machine\n");
    std::exit(1);
  }
  return [=, c = o.c] {
#pragma omp parallel for
    for (Size j = 0; j < across; ++j)
      for (Size i = 0; i < down; ++i) {
        const auto multiply =
            j + 1 < across ? (i + 1 < down ? inner : lower) : (i + 1 < down ? right : corner);
        const auto count = static_cast<unsigned long long>(batch);
        multiply(b.get() + j * columns * filled, a.get() + i * rows * filled,
                 c.get() + i * rows * s.n + j * columns, &count);
      }
  };
}

template <class T>
std::vector<std::function<void()>> ways(const Operands<T>& o) {
  std::vector<std::function<void()>> all;
  for (const Size columns : {32, 64})
    for (const Size rows : {24, 32, 64})
      for (const Size depth : {64, 512})
        all.push_back(in_blocks(o, columns, std::min(rows, o.shape.m), depth));
  return all;
}

std::string version() {
  return std::string("libxsmm ") + LIBXSMM_VERSION + ", " + libxsmm_get_target_arch();
}

#endif

template <class T>
double measure(const Shape& s, const std::string& name, double seconds) {
  const Operands<T> operands(s);
  double best = INFINITY;
  const auto all = ways(operands);
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::fill_n(operands.c.get(), s.m * s.n, T{});
    all[i]();
    if (!operands.is_right()) {
      std::fprintf(stderr, "products: %s is wrong\n", name.c_str());
      std::exit(1);
    }
    const double milliseconds = all.size() == 1 ? 0 : median_milliseconds(all[i], seconds / 10);
    if (milliseconds < best) best = milliseconds, chosen = i;
  }
  return median_milliseconds(all[chosen], seconds);
}

struct Model {
  std::string name;
  Size rows, dim, ffn, heads, kv_heads, head_dim;
};
const std::vector<Model> models{{"33m", 2048, 512, 1536, 8, 4, 64},
                                {"8b", 8192, 4096, 14336, 32, 8, 128},
                                {"odd", 999, 330, 1001, 6, 3, 55}};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: products SECONDS MODEL...\n");
    return 2;
  }
  const double seconds = std::atof(argv[1]);
  std::string line;
  for (const Model& m : models) {
    if (std::find(argv + 2, argv + argc, m.name) == argv + argc) continue;
    const auto put = [&](const std::string& what, Size in, Size out) {
      const std::pair<const char*, Shape> forms[] = {{"", {m.rows, out, in, false, true}},
                                                     {"_dgrad", {m.rows, in, out, false, false}},
                                                     {"_wgrad", {out, in, m.rows, true, false}}};
      for (const auto& [form, shape] : forms)
        for (const bool bf16 : {false, true}) {
          const std::string name = "matmul_" + what + form + "/" + m.name + (bf16 ? "/bf16" : "/f32");
          const double milliseconds =
              bf16 ? measure<std::uint16_t>(shape, name, seconds) : measure<float>(shape, name, seconds);
          line += (line.empty() ? "\"" : ", \"") + name + "\": " + std::to_string(milliseconds);
        }
    };
    put("qkv", m.dim, (m.heads + 2 * m.kv_heads) * m.head_dim);
    put("proj", m.heads * m.head_dim, m.dim);
    put("gate_up", m.dim, 2 * m.ffn);
    put("down", m.ffn, m.dim);
  }
  std::printf("{\"library\": \"%s\", %s}\n", version().c_str(), line.c_str());
}
