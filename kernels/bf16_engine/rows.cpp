#include "kernels/bf16_engine/rows.hpp"

#include "kernels/bf16_engine/isa.hpp"

namespace weft::kernels::bf16_engine {
namespace {

constexpr std::int64_t width = 32;  ///< elements of a vector
constexpr float log2_e = 1.44269504088896341f;

struct Wide {
  __m512 low, high;
};
WEFT_AVX512 inline Wide widened(__m512i bits) {
  return {from_bits(_mm512_castsi512_si256(bits)), from_bits(_mm512_extracti64x4_epi64(bits, 1))};
}
WEFT_AVX512 inline __m512i narrowed(const Wide& x) {
  return to_bits(x.low, x.high);
}

/// Reads and writes a whole vector of a row; Part does so at the row's end.
struct Whole {
  WEFT_AVX512 Wide load(const bf16* x) const { return widened(_mm512_loadu_si512(x)); }
  WEFT_AVX512 void store(bf16* to, const Wide& x) const { _mm512_storeu_si512(to, narrowed(x)); }
};
struct Part {
  std::uint32_t mask;
  WEFT_AVX512 Wide load(const bf16* x) const { return widened(_mm512_maskz_loadu_epi16(mask, x)); }
  WEFT_AVX512 void store(bf16* to, const Wide& x) const { _mm512_mask_storeu_epi16(to, mask, narrowed(x)); }
};

template <class Do>
WEFT_AVX512 inline void along(std::int64_t n, Do&& work) {
  std::int64_t i = 0;
  for (; i + width <= n; i += width) work.at(i, Whole{});
  if (i < n) work.at(i, Part{first_bits(static_cast<int>(n - i))});
}

/// 1 / (1 + e^-x), by one step of Newton's method from a reciprocal of 14 bits.
WEFT_AVX512 inline __m512 sigmoid(__m512 x) {
  const __m512 most = _mm512_set1_ps(126);  // with a larger x the step would multiply infinity by zero
  const __m512 power = exp2_of(_mm512_min_ps(most, _mm512_mul_ps(x, _mm512_set1_ps(-log2_e))));
  const __m512 y = _mm512_add_ps(_mm512_set1_ps(1), power), r = _mm512_rcp14_ps(y);
  return _mm512_mul_ps(r, _mm512_fnmadd_ps(y, r, _mm512_set1_ps(2)));
}

/// Fetches a vector of the next row while a row is passed over.
inline void fetch(const bf16* x) {
  __builtin_prefetch(x);
}
inline void fetch_to_write(const bf16* x) {
  __builtin_prefetch(x, 1);
}

struct Swiglu {
  const bf16 *gate, *up;
  bf16* out;
  std::int64_t row, out_row;  ///< elements from a row to the next

  WEFT_AVX512 static __m512 of(__m512 g, __m512 u) { return _mm512_mul_ps(_mm512_mul_ps(g, sigmoid(g)), u); }
  template <class Access>
  WEFT_AVX512 void at(std::int64_t i, const Access& access) const {
    fetch(gate + i + row);
    fetch(up + i + row);
    fetch_to_write(out + i + out_row);
    const Wide g = access.load(gate + i), u = access.load(up + i);
    access.store(out + i, {of(g.low, u.low), of(g.high, u.high)});
  }
};

struct SwigluGrad {
  const bf16 *gate, *up, *dout;
  bf16 *dgate, *dup;
  std::int64_t row, dout_row;

  struct Grads {
    __m512 gate, up;
  };
  WEFT_AVX512 static Grads of(__m512 g, __m512 u, __m512 d) {
    const __m512 one = _mm512_set1_ps(1), s = sigmoid(g), ds = _mm512_mul_ps(d, s);
    const __m512 slope = _mm512_fmadd_ps(g, _mm512_sub_ps(one, s), one);
    return {_mm512_mul_ps(_mm512_mul_ps(ds, u), slope), _mm512_mul_ps(ds, g)};
  }
  template <class Access>
  WEFT_AVX512 void at(std::int64_t i, const Access& access) const {
    fetch(gate + i + row);
    fetch(up + i + row);
    fetch(dout + i + dout_row);
    fetch_to_write(dgate + i + row);
    fetch_to_write(dup + i + row);
    const Wide g = access.load(gate + i), u = access.load(up + i), d = access.load(dout + i);
    const Grads low = of(g.low, u.low, d.low), high = of(g.high, u.high, d.high);
    access.store(dgate + i, {low.gate, high.gate});
    access.store(dup + i, {low.up, high.up});
  }
};

struct Powers {
  const bf16* z;
  __m512 shift;

  template <class Access>
  WEFT_AVX512 Wide of(std::int64_t i, const Access& access) const {
    const __m512 factor = _mm512_set1_ps(log2_e);
    const Wide x = access.load(z + i);
    return {exp2_of(_mm512_mul_ps(_mm512_sub_ps(x.low, shift), factor)),
            exp2_of(_mm512_mul_ps(_mm512_sub_ps(x.high, shift), factor))};
  }
};

struct Softmax {
  Powers powers;
  bf16* to;

  template <class Access>
  WEFT_AVX512 void at(std::int64_t i, const Access& access) const {
    access.store(to + i, powers.of(i, access));
  }
};

}  // namespace

WEFT_AVX512 void swiglu_row(std::int64_t n, std::int64_t stride, const bf16* gate, const bf16* up,
                            bf16* out) {
  along(n, Swiglu{gate, up, out, stride, n});
}

WEFT_AVX512 void swiglu_grad_row(std::int64_t n, std::int64_t stride, const bf16* gate, const bf16* up,
                                 const bf16* dout, bf16* dgate, bf16* dup) {
  along(n, SwigluGrad{gate, up, dout, dgate, dup, stride, n});
}

WEFT_AVX512 float largest_of_row(std::int64_t n, const bf16* z) {
  Wide most{_mm512_set1_ps(to_float(z[0])), _mm512_set1_ps(to_float(z[0]))};
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    const Wide x = Whole{}.load(z + i);
    most = {_mm512_max_ps(most.low, x.low), _mm512_max_ps(most.high, x.high)};
  }
  float largest = _mm512_reduce_max_ps(_mm512_max_ps(most.low, most.high));
  for (; i < n; ++i) largest = to_float(z[i]) > largest ? to_float(z[i]) : largest;
  return largest;
}

WEFT_AVX512 float powers_of_row(std::int64_t n, const bf16* z, float shift) {
  const Powers powers{z, _mm512_set1_ps(shift)};
  Wide sum{_mm512_setzero_ps(), _mm512_setzero_ps()};
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    const Wide p = powers.of(i, Whole{});
    sum = {_mm512_add_ps(sum.low, p.low), _mm512_add_ps(sum.high, p.high)};
  }
  if (i < n) {
    const std::uint32_t there = first_bits(static_cast<int>(n - i));
    const Wide p = powers.of(i, Part{there});
    sum = {_mm512_mask_add_ps(sum.low, static_cast<__mmask16>(there), sum.low, p.low),
           _mm512_mask_add_ps(sum.high, static_cast<__mmask16>(there >> 16), sum.high, p.high)};
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(sum.low, sum.high));
}

WEFT_AVX512 void softmax_row(std::int64_t n, const bf16* z, float shift, bf16* to) {
  along(n, Softmax{{z, _mm512_set1_ps(shift)}, to});
}

}  // namespace weft::kernels::bf16_engine
