#include "kernels/rms_norm.hpp"

#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

std::int64_t rows_per_block(std::int64_t rows) {
  constexpr std::int64_t most_blocks = 256;
  constexpr std::int64_t least_rows = 32;
  const std::int64_t even = (rows + most_blocks - 1) / most_blocks;
  return even > least_rows ? even : least_rows;
}

std::int64_t block_count(std::int64_t rows) {
  const std::int64_t each = rows_per_block(rows);
  return (rows + each - 1) / each;
}

template <class T>
struct Forward {
  std::int64_t dim;
  const T* x;
  const T* w;
  float eps;
  T* y;
  float* rstd;
  const T* branch = nullptr;  ///< what is added to x first; null: nothing
  T* sum = nullptr;

  /// Both norms use this code, so that a norm has the same bits wherever its operand was added up.
  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t row) const {
    const T* from = x + row * dim;
    if (branch != nullptr) {
      const T* other = branch + row * dim;
      T* total = sum + row * dim;
      lanes.each(dim,
                 [=](std::int64_t c) { total[c] = from_float<T>(to_float(from[c]) + to_float(other[c])); });
      lanes.wait();
      from = total;
    }
    T* to = y + row * dim;
    const float squares = lanes.sum(dim, [&](std::int64_t c) {
      const float value = to_float(from[c]);
      return value * value;
    });
    const float scale = 1.0f / Kokkos::sqrt(squares / static_cast<float>(dim) + eps);
    lanes.once([&] { rstd[row] = scale; });
    lanes.each(dim,
               [&](std::int64_t c) { to[c] = from_float<T>(to_float(from[c]) * scale * to_float(w[c])); });
  }
};

template <class T>
struct Backward {
  RowShape shape;
  std::int64_t block_rows;
  const T* x;
  const T* w;
  const float* rstd;
  const T* dy;
  const T* sum;
  T* dx;
  float* partial;  ///< [blocks, dim]

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t block) const {
    float* dw = partial + block * shape.dim;
    lanes.each(shape.dim, [&](std::int64_t c) { dw[c] = 0; });
    const std::int64_t end = (block + 1) * block_rows < shape.rows ? (block + 1) * block_rows : shape.rows;
    for (std::int64_t row = block * block_rows; row < end; ++row) one_row(lanes, row, dw);
  }

  template <class Lanes>
  KOKKOS_FUNCTION void one_row(const Lanes& lanes, std::int64_t row, float* dw) const {
    const T* in = x + row * shape.dim;
    const T* grad = dy + row * shape.dim;
    T* out = dx + row * shape.dim;
    lanes.fetch_next(in, shape.dim);
    lanes.fetch_next(grad, shape.dim);
    lanes.fetch_next_to_write(out, shape.dim);
    const T* weight = w;  // GCC does not vectorise sums of what it reads through `this`
    const float scale = rstd[row];
    const float dot = lanes.sum(
        shape.dim, [&](std::int64_t c) { return to_float(grad[c]) * to_float(weight[c]) * to_float(in[c]); });
    const float pull = dot * scale * scale / static_cast<float>(shape.dim);
    const auto gradient = [&](std::int64_t c) {
      const float value = to_float(in[c]);
      const float g = to_float(grad[c]);
      dw[c] += g * (value * scale);
      return scale * (g * to_float(weight[c]) - value * pull);
    };
    if (sum == nullptr) {
      lanes.each(shape.dim, [&](std::int64_t c) { out[c] = from_float<T>(gradient(c)); });
    } else {
      const T* before = sum + row * shape.dim;
      lanes.fetch_next(before, shape.dim);
      lanes.each(shape.dim,
                 [&](std::int64_t c) { out[c] = from_float<T>(to_float(before[c]) + gradient(c)); });
    }
  }
};

template <class G>
struct AddBlocks {
  std::int64_t blocks;
  std::int64_t dim;
  const float* partial;
  G* dw;

  KOKKOS_FUNCTION void operator()(std::int64_t c) const {
    float sum = 0;
    for (std::int64_t b = 0; b < blocks; ++b) sum += partial[b * dim + c];
    dw[c] = from_float<G>(sum);
  }
};

}  // namespace

void rms_norm(Space& space, RowShape shape, DType t, const void* x, const void* w, float eps, void* y,
              float* rstd) {
  with_float_type("rms_norm", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::rms_norm::forward", shape.rows,
                 Forward<T>{shape.dim, static_cast<const T*>(x), static_cast<const T*>(w), eps,
                            static_cast<T*>(y), rstd});
  });
}

void add_rms_norm(Space& space, RowShape shape, DType t, const void* a, const void* b, const void* w,
                  float eps, void* sum, void* y, float* rstd) {
  with_float_type("add_rms_norm", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::rms_norm::add_forward", shape.rows,
                 Forward<T>{shape.dim, static_cast<const T*>(a), static_cast<const T*>(w), eps,
                            static_cast<T*>(y), rstd, static_cast<const T*>(b), static_cast<T*>(sum)});
  });
}

void rms_norm_grad(Space& space, RowShape shape, DType t, const RmsNormGrad& grad) {
  auto* partial = static_cast<float*>(grad.scratch);
  const std::int64_t blocks = block_count(shape.rows);
  with_float_type("rms_norm_grad", t, [&](auto type) {
    using T = decltype(type);
    for_each_row(space, "weft::rms_norm::backward", blocks,
                 Backward<T>{shape, rows_per_block(shape.rows), static_cast<const T*>(grad.x),
                             static_cast<const T*>(grad.w), grad.rstd, static_cast<const T*>(grad.dy),
                             static_cast<const T*>(grad.sum), static_cast<T*>(grad.dx), partial});
  });
  with_float_type("rms_norm_grad", grad.dw_type, [&](auto type) {
    using G = decltype(type);
    for_each_element(space, "weft::rms_norm::backward_weight", shape.dim,
                     AddBlocks<G>{blocks, shape.dim, partial, static_cast<G*>(grad.dw)});
  });
}

std::size_t rms_norm_grad_scratch_bytes(RowShape shape) {
  return static_cast<std::size_t>(block_count(shape.rows) * shape.dim) * sizeof(float);
}

}  // namespace weft::kernels
