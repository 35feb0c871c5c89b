#include "kernels/rms_norm.hpp"

#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

/// How many rows share a partial sum of the weight's gradient. The device needs more blocks at a time.
std::int64_t rows_per_block(std::int64_t rows, bool on_host) {
  const std::int64_t most_blocks = on_host ? 256 : 1024, least_rows = on_host ? 32 : 8;
  const std::int64_t even = (rows + most_blocks - 1) / most_blocks;
  return even > least_rows ? even : least_rows;
}

std::int64_t block_count(std::int64_t rows, bool on_host) {
  const std::int64_t each = rows_per_block(rows, on_host);
  return (rows + each - 1) / each;
}

/// Calls f with a value of the operands' type and one of the weight's.
template <class F>
void with_types(const char* op, DType t, DType w, const F& f) {
  with_float_type(op, t, [&](auto type) {
    if (w == DType::f32)
      f(type, float{});
    else if (w == t)
      f(type, type);
    else
      fail_dtype(op, w);
  });
}

/// T is the type of the operands, W of the weight.
template <class T, class W>
struct RmsNormForward {
  std::int64_t dim;
  const T* x;
  const W* w;
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
      lanes.each_value(
          dim, [](std::int64_t, float& s, float a, float b) { s = a + b; }, Write<T>{total}, Read<T>{from},
          Read<T>{other});
      lanes.wait();
      from = total;
    }
    T* to = y + row * dim;
    const float squares = lanes.sum_values(
        dim, [](float value) { return value * value; }, Read<T>{from});
    const float scale = 1.0f / Kokkos::sqrt(squares / static_cast<float>(dim) + eps);
    lanes.once([&] { rstd[row] = scale; });
    lanes.each_value(
        dim, [=](std::int64_t, float& out, float value, float weight) { out = value * scale * weight; },
        Write<T>{to}, Read<T>{from}, Read<W>{w});
  }
};

template <class T, class W>
struct RmsNormBackward {
  RowShape shape;
  std::int64_t block_rows;
  const T* x;
  const W* w;
  const float* rstd;
  const T* dy;
  const T* sum;
  T* dx;
  float* partial;  ///< [blocks, dim]

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t block) const {
    float* dw = partial + block * shape.dim;
    const std::int64_t begin = block * block_rows;
    const std::int64_t end = begin + block_rows < shape.rows ? begin + block_rows : shape.rows;
    lanes.each(shape.dim, [&](std::int64_t c) { dw[c] = 0; });
    for (std::int64_t row = begin; row < end; ++row) one_row(lanes, row, dw);
  }

  template <class Lanes>
  KOKKOS_FUNCTION void one_row(const Lanes& lanes, std::int64_t row, float* dw) const {
    const T* in = x + row * shape.dim;
    const T* grad = dy + row * shape.dim;
    T* out = dx + row * shape.dim;
    lanes.fetch_next(in, shape.dim);
    lanes.fetch_next(grad, shape.dim);
    lanes.fetch_next_to_write(out, shape.dim);
    const W* weight = w;  // GCC does not vectorise sums of what it reads through `this`
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

/// Does what RmsNormBackward does on the device, with a block's part of the weight's gradient in registers: a
/// thread has up to `turns` packets of columns. A row's values are there, too, or are read a second time
/// where they are too many.
template <class T, class W, int turns>
struct BackwardInRegisters {
  static constexpr bool keeps_row = turns <= 4;
  RmsNormBackward<T, W> b;

  static bool takes(const RmsNormBackward<T, W>& b) {
    return b.shape.dim <= turns * packet * device_team &&
           takes_packets(b.shape.dim, Read<T>{b.x}, Read<T>{b.dy}, Read<T>{b.sum}, Write<T>{b.dx},
                         Read<W>{b.w});
  }

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t block) const {
    const std::int64_t dim = b.shape.dim, begin = block * b.block_rows;
    const std::int64_t end = begin + b.block_rows < b.shape.rows ? begin + b.block_rows : b.shape.rows;
    const std::int64_t first = static_cast<std::int64_t>(lanes.member.team_rank()) * packet;
    constexpr std::int64_t stride = static_cast<std::int64_t>(packet) * device_team;
    float total[turns][packet] = {};
    for (std::int64_t row = begin; row < end; ++row) {
      const float scale = b.rstd[row];
      float value[keeps_row ? turns : 1][packet], grad[keeps_row ? turns : 1][packet];
      float own = 0;
      for (int turn = 0; turn < turns; ++turn) {
        const std::int64_t column = first + turn * stride;
        if (column >= dim) break;
        const int slot = keeps_row ? turn : 0;
        float weight[packet];
        load_packet(b.x + row * dim + column, value[slot]);
        load_packet(b.dy + row * dim + column, grad[slot]);
        load_packet(b.w + column, weight);
        for (int i = 0; i < packet; ++i) {
          total[turn][i] += grad[slot][i] * (value[slot][i] * scale);
          grad[slot][i] *= weight[i];
          own += grad[slot][i] * value[slot][i];
        }
      }
      const float pull = lanes.sum_of_threads(own) * scale * scale / static_cast<float>(dim);
#pragma unroll  // so that a wide row's second loads are under way together
      for (int turn = 0; turn < turns; ++turn) {
        const std::int64_t column = first + turn * stride;
        if (column >= dim) break;
        const int slot = keeps_row ? turn : 0;
        if constexpr (!keeps_row) {
          float weight[packet];
          load_packet(b.x + row * dim + column, value[slot]);
          load_packet(b.dy + row * dim + column, grad[slot]);
          load_packet(b.w + column, weight);
          for (int i = 0; i < packet; ++i) grad[slot][i] *= weight[i];
        }
        float out[packet] = {};
        if (b.sum != nullptr) load_packet(b.sum + row * dim + column, out);
        for (int i = 0; i < packet; ++i) out[i] += scale * (grad[slot][i] - value[slot][i] * pull);
        store_packet(b.dx + row * dim + column, out);
      }
    }
    for (int turn = 0; turn < turns; ++turn)
      if (const std::int64_t column = first + turn * stride; column < dim)
        store_packet(b.partial + block * dim + column, total[turn]);
  }
};

template <class G>
struct AddBlocks {
  std::int64_t blocks;
  std::int64_t stride;  ///< elements from one sum to the next
  const float* partial;
  G* dw;

  KOKKOS_FUNCTION void operator()(std::int64_t c) const {
    float sum = 0;
    for (std::int64_t b = 0; b < blocks; ++b) sum += partial[b * stride + c];
    dw[c] = from_float<G>(sum);
  }
};

/// Adds the partial sums of groups of blocks, each onto that of its first block: a thread for each column
/// alone would leave most of a device idle.
struct AddGroups {
  static constexpr std::int64_t group = 32;
  std::int64_t blocks;
  std::int64_t dim;
  float* partial;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t first = i / dim * group, column = i % dim;
    const std::int64_t end = first + group < blocks ? first + group : blocks;
    float sum = 0;
    for (std::int64_t b = first; b < end; ++b) sum += partial[b * dim + column];
    partial[first * dim + column] = sum;
  }
};

}  // namespace

void rms_norm(Space& space, RowShape shape, DType t, const void* x, const void* w, DType w_type, float eps,
              void* y, float* rstd) {
  with_types("rms_norm", t, w_type, [&](auto type, auto weight) {
    using T = decltype(type);
    using W = decltype(weight);
    for_each_row(space, "weft::rms_norm::forward", shape.rows,
                 RmsNormForward<T, W>{shape.dim, static_cast<const T*>(x), static_cast<const W*>(w), eps,
                                      static_cast<T*>(y), rstd});
  });
}

void add_rms_norm(Space& space, RowShape shape, DType t, const void* a, const void* b, const void* w,
                  DType w_type, float eps, void* sum, void* y, float* rstd) {
  with_types("add_rms_norm", t, w_type, [&](auto type, auto weight) {
    using T = decltype(type);
    using W = decltype(weight);
    for_each_row(
        space, "weft::rms_norm::add_forward", shape.rows,
        RmsNormForward<T, W>{shape.dim, static_cast<const T*>(a), static_cast<const W*>(w), eps,
                             static_cast<T*>(y), rstd, static_cast<const T*>(b), static_cast<T*>(sum)});
  });
}

void rms_norm_grad(Space& space, RowShape shape, DType t, const RmsNormGrad& grad) {
  auto* partial = static_cast<float*>(grad.scratch);
  const std::int64_t blocks = block_count(shape.rows, runs_on_host);
  with_types("rms_norm_grad", t, grad.w_type, [&](auto type, auto weight) {
    using T = decltype(type);
    using W = decltype(weight);
    const RmsNormBackward<T, W> rows{shape,
                                     rows_per_block(shape.rows, runs_on_host),
                                     static_cast<const T*>(grad.x),
                                     static_cast<const W*>(grad.w),
                                     grad.rstd,
                                     static_cast<const T*>(grad.dy),
                                     static_cast<const T*>(grad.sum),
                                     static_cast<T*>(grad.dx),
                                     partial};
    const auto run = [&](const auto& how) { for_each_row(space, "weft::rms_norm::backward", blocks, how); };
    if constexpr (!runs_on_host) {
      if (BackwardInRegisters<T, W, 1>::takes(rows)) return run(BackwardInRegisters<T, W, 1>{rows});
      if (BackwardInRegisters<T, W, 2>::takes(rows)) return run(BackwardInRegisters<T, W, 2>{rows});
      if (BackwardInRegisters<T, W, 4>::takes(rows)) return run(BackwardInRegisters<T, W, 4>{rows});
      if (BackwardInRegisters<T, W, 8>::takes(rows)) return run(BackwardInRegisters<T, W, 8>{rows});
    }
    run(rows);
  });
  std::int64_t sums = blocks, stride = shape.dim;
  if constexpr (!runs_on_host) {
    sums = (blocks + AddGroups::group - 1) / AddGroups::group;
    stride = AddGroups::group * shape.dim;
    for_each_element(space, "weft::rms_norm::backward_groups", sums * shape.dim,
                     AddGroups{blocks, shape.dim, partial});
  }
  with_float_type("rms_norm_grad", grad.dw_type, [&](auto type) {
    using G = decltype(type);
    for_each_element(space, "weft::rms_norm::backward_weight", shape.dim,
                     AddBlocks<G>{sums, stride, partial, static_cast<G*>(grad.dw)});
  });
}

std::size_t rms_norm_grad_scratch_bytes(RowShape shape) {
  return rms_norm_grad_scratch_bytes(shape, runs_on_host);
}

std::size_t rms_norm_grad_scratch_bytes(RowShape shape, bool on_host) {
  return static_cast<std::size_t>(block_count(shape.rows, on_host) * shape.dim) * sizeof(float);
}

}  // namespace weft::kernels
