// The kernels of the update phase. This file is built with contraction off (CMakeLists.txt): a multiply and
// an add fuse only where it says fma, in vector loops and in their remainders alike.
#include "kernels/update.hpp"

#include <type_traits>

#include "kernels/dispatch.hpp"
#include "kernels/lanes.hpp"

namespace weft::kernels {

namespace {

template <class G>
struct AccumulateGrad {
  const G* g;
  float* acc;
  bool keep;  ///< whether what acc holds is kept, and added to

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t begin, std::int64_t count) const {
    const Read<G> from{g + begin};
    if (keep)
      lanes.each_value(
          count, [](std::int64_t, float& sum, float x) { sum += x; }, Update<float>{acc + begin}, from);
    else
      lanes.each_value(
          count, [](std::int64_t, float& sum, float x) { sum = x; }, Write<float>{acc + begin}, from);
  }
};

/// Computes the four results of clip_scale.
struct ClipScale {
  const std::int64_t* limbs;
  const double* totals;
  float max_norm;
  float* out;

  KOKKOS_FUNCTION void operator()(std::int64_t) const {
    const double count = totals[1];
    const float no_step = Kokkos::Experimental::quiet_NaN_v<float>;
    if (!(count > 0)) {
      for (int i = 0; i < 4; ++i) out[i] = i == 1 ? no_step : 0.0F;
      return;
    }
    const double norm = Kokkos::sqrt(exact_value(limbs)) / count;
    const double factor = static_cast<double>(max_norm) / (norm + 1e-6);
    const bool clips = max_norm > 0 && factor < 1.0;
    out[0] = static_cast<float>(norm);
    out[2] = static_cast<float>(totals[0] / count);
    out[3] = static_cast<float>(count);
    const bool finite = Kokkos::isfinite(out[0]) && Kokkos::isfinite(out[2]);
    out[1] = finite ? static_cast<float>((clips ? factor : 1.0) / count) : no_step;
  }
};

struct ReduceTotals {
  std::int64_t ranks;
  std::int64_t rounds;
  const double* in;
  double* out;

  KOKKOS_FUNCTION void operator()(std::int64_t which) const {
    double sum = 0;
    for (std::int64_t round = 0; round < rounds; ++round)
      for (std::int64_t rank = 0; rank < ranks; ++rank) sum += in[(rank * rounds + round) * 2 + which];
    out[which] = sum;
  }
};

struct AdamConstants {
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float eps;
};

/// Updates one element; `this` has what all elements share.
struct AdamElement {
  AdamConstants c;
  float scale, bias2_sqrt, step_size, decay;
  /// Leaves everything as it is; this is chosen at the end, so that such a step takes as long as any other.
  bool keep;

  KOKKOS_FUNCTION void operator()(float& master, float& exp_avg, float& exp_avg_sq, float grad) const {
    const float old_m = exp_avg, old_v = exp_avg_sq, old_p = master;
    const float g = grad * scale;
    const float m = Kokkos::fma(c.one_minus_beta1, g - old_m, old_m);
    const float v = Kokkos::fma(c.one_minus_beta2 * g, g, c.beta2 * old_v);
    const float denominator = Kokkos::sqrt(v) / bias2_sqrt + c.eps;
    const float p = Kokkos::fma(-step_size, m / denominator, old_p * decay);
    exp_avg = keep ? old_m : m;
    exp_avg_sq = keep ? old_v : v;
    master = keep ? old_p : p;
  }
};

template <class P, bool has_param>
struct AdamStep {
  /// Those of a thread at a time on the device: 16 bytes of the narrowest array. Eight of arrays of fp32
  /// alone are more than ptxas gives a thread registers for.
  static constexpr int elements = has_param ? 16 / sizeof(P) : 4;
  AdamConstants c;
  const StepBlock* step;
  const float* scale;
  const float* grad;
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
  P* param;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(const Lanes& lanes, std::int64_t begin, std::int64_t count) const {
    const float factor = scale[1];
    const bool keep = !Kokkos::isfinite(factor) || step->hold != 0;
    const AdamElement update{c, factor, step->bias2_sqrt, step->step_size, step->decay, keep};
    const Update<float> masters{master + begin}, means{exp_avg + begin}, squares{exp_avg_sq + begin};
    const Read<float> grads{grad + begin};
    if constexpr (has_param)
      lanes.template each_value<elements>(
          count,
          [=](std::int64_t, float& rounded, float& p, float& m, float& v, float g) {
            update(p, m, v, g);
            rounded = p;
          },
          Write<P>{param + begin}, masters, means, squares, grads);
    else
      lanes.template each_value<elements>(
          count, [=](std::int64_t, float& p, float& m, float& v, float g) { update(p, m, v, g); }, masters,
          means, squares, grads);
  }
};

}  // namespace

void accumulate(Space& space, std::int64_t n, DType g_type, const void* g, float* acc, WriteMode mode) {
  with_float_type("accumulate", g_type, [&](auto type) {
    using G = decltype(type);
    for_each_stretch(space, "weft::accumulate::add", n,
                     AccumulateGrad<G>{static_cast<const G*>(g), acc, mode == WriteMode::add});
  });
}

void reduce_totals(Space& space, std::int64_t ranks, std::int64_t rounds, const double* in, double* out) {
  Kokkos::parallel_for("weft::reduce_totals::add", Kokkos::RangePolicy<Execution>(execution_of(space), 0, 2),
                       ReduceTotals{ranks, rounds, in, out});
}

void clip_scale(Space& space, const std::int64_t* limbs, const double* totals, float max_norm, float* out) {
  Kokkos::parallel_for("weft::clip_scale::scale", Kokkos::RangePolicy<Execution>(execution_of(space), 0, 1),
                       ClipScale{limbs, totals, max_norm, out});
}

void adamw(Space& space, std::int64_t n, const AdamW& adam, const float* grad, float* master, float* exp_avg,
           float* exp_avg_sq, DType param_type, void* param) {
  const AdamConstants constants{static_cast<float>(adam.beta2), static_cast<float>(1.0 - adam.beta1),
                                static_cast<float>(1.0 - adam.beta2), adam.eps};
  with_float_type("adamw", param_type, [&](auto type) {
    using P = decltype(type);
    const auto run = [&](auto has_param) {
      for_each_stretch(space, "weft::adamw::step", n,
                       AdamStep<P, decltype(has_param)::value>{constants, adam.step, adam.scale, grad, master,
                                                               exp_avg, exp_avg_sq, static_cast<P*>(param)});
    };
    // When the master is the parameter itself, nothing is written beside it.
    if (param == nullptr || param == static_cast<void*>(master))
      run(std::false_type{});
    else
      run(std::true_type{});
  });
}

}  // namespace weft::kernels
