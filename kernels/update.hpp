// The update phase: accumulation of gradients, their norm, clipping, and AdamW. All state here is fp32. Bits
// depend neither on where a shard is cut (at multiples of 256 elements), nor on the number of threads.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "base/exact_sum.hpp"
#include "base/step_block.hpp"
#include "base/write_mode.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// acc = g or acc += g over n elements, in fp32. g is of type `g_type` (f32 or bf16; std::logic_error
/// otherwise).
void accumulate(Space& space, std::int64_t n, DType g_type, const void* g, float* acc, WriteMode mode);

/// Adds the sum of squares of g [n] to the exact register `limbs` [exact_limbs] (device memory, see
/// base/exact_sum.hpp): first an fp64 sum in fixed order for every 256 elements from the start, then integers
/// only. The limbs are left with their carries done, so that equal sums are equal limbs, and registers of
/// many ranks can be added as integers.
void sum_squares(Space& space, std::int64_t n, const float* g, std::int64_t* limbs);

/// out [2] = the sum of in [ranks][rounds][2] (loss sum, token count), round by round, and in each by rank:
/// the order of microbatches.
void reduce_totals(Space& space, std::int64_t ranks, std::int64_t rounds, const double* in, double* out);

/// Computes out [4] from the register of the summed gradient and totals [2] (loss sum, token count):
/// - the norm of the mean gradient, sqrt(sum of squares) / count;
/// - the factor for the summed gradient, min(1, max_norm / (norm + 1e-6)) / count as in
///   torch.nn.utils.clip_grad_norm_ (max_norm <= 0: no clipping);
/// - the mean loss;
/// - the count.
/// A NaN or an infinity in the gradient gives a NaN norm, and count 0 gives zeros. The factor is NaN when the
/// norm or the loss is not finite as an fp32, and with count 0; adamw then keeps its state.
void clip_scale(Space& space, const std::int64_t* limbs, const double* totals, float max_norm, float* out);

/// The constants of adamw. The betas are double because 1 - beta is taken in double, as PyTorch does.
struct AdamW {
  double beta1;
  double beta2;
  float eps;
  const StepBlock* step;  ///< device memory: decay, step_size, bias2_sqrt, hold
  const float* scale;     ///< device memory: clip_scale's out; scale[1] multiplies the gradient
};

/// One step of AdamW (Loshchilov & Hutter, 2019) in the order of torch.optim.AdamW. grad, master, exp_avg and
/// exp_avg_sq [n] are fp32. `param` [n] of `param_type` (f32 or bf16) receives the rounded master; it may be
/// null, or `master` itself. With a factor that is not finite, or a step that holds, master and moments keep
/// their bits.
void adamw(Space& space, std::int64_t n, const AdamW& adam, const float* grad, float* master, float* exp_avg,
           float* exp_avg_sq, DType param_type, void* param);

}  // namespace weft::kernels
