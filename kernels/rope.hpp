// Rotary position embedding (Su et al., 2021) with Llama 3.1's frequency scaling.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

/// Llama 3.1's scaling of long wavelengths. The fields have the names of `rope_scaling` in a Hugging Face
/// config.
struct RopeScaling {
  bool enabled = false;
  float factor = 8;
  float low_freq_factor = 1;
  float high_freq_factor = 4;
  std::int64_t original_max_position = 8192;
};

/// Fills the host table [max_pos][head_dim/2][2] with cos and sin of position * frequency. Frequencies and
/// angles are computed in fp32 as by Meta's llama-models (`apply_scaling`, `precompute_freqs_cis`) and
/// transformers.
void fill_rope_table(float* table, std::int64_t max_pos, std::int64_t head_dim, float theta,
                     RopeScaling scaling);

struct RopeShape {
  std::int64_t rows;      ///< B*T
  std::int64_t heads;     ///< H or Hkv
  std::int64_t head_dim;  ///< D, even
};

/// backward rotates by the opposite angle, which is the gradient of forward.
enum class RopeDirection { forward, backward };

/// Rotates the pairs (2i, 2i+1) of x [rows, heads, head_dim] by the angle of positions[row], as Meta's
/// reference does; `table` is fill_rope_table's, in device memory. Type `t` f32 or bf16 (std::logic_error
/// otherwise), arithmetic fp32. out may be x.
void rope(Space& space, RopeShape shape, DType t, const void* x, const std::int32_t* positions,
          const float* table, void* out, RopeDirection direction);

/// The shape of queries, keys and values that lie next to each other, as one matmul makes them: each token's
/// row has heads + 2 kv_heads heads.
struct QkvShape {
  std::int64_t rows;  ///< B*T
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;  ///< D, even
};

/// Splits qkv [rows, heads + 2 kv_heads, D] into q [rows, heads, D] and k, v [rows, kv_heads, D]; q and k are
/// rotated as rope() does.
void rope_split(Space& space, QkvShape shape, DType t, const void* qkv, const std::int32_t* positions,
                const float* table, void* q, void* k, void* v);

/// The gradient of rope_split: dq and dk are rotated back, and stand next to dv in dqkv.
void rope_join(Space& space, QkvShape shape, DType t, const void* dq, const void* dk, const void* dv,
               const std::int32_t* positions, const float* table, void* dqkv);

}  // namespace weft::kernels
