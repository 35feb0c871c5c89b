// A profile with round numbers, so that what a test expects can be computed in the head.
#pragma once

#include "machine/profile.hpp"

namespace weft::test {

inline machine::Profile small_profile() {
  machine::Profile p;
  p.name = "small";
  p.ranks_per_node = 4;
  p.compute = {1, 1e9, 2e9, 5e8, 1e9, 1e-6};
  p.sharing = {1e8, 0.5, 0.75, 2e-9};
  p.collectives = {
      {ir::Op::all_gather, DType::f32, 2, 1, {{1024, 1e-5}, {4096, 2e-5}, {65536, 1.6e-4}}},
      {ir::Op::all_gather, DType::f32, 16, 2, {{1024, 1e-4}, {65536, 1e-2}}},
      {ir::Op::reduce_scatter, DType::f32, 2, 1, {{1024, 2e-5}, {65536, 3.2e-4}}},
      {ir::Op::reduce_scatter, DType::bf16, 2, 1, {{1024, 3e-5}, {65536, 6.4e-4}}},
  };
  p.kernels = {{"add f32[64] f32[64] -> f32[64]", 3e-5, 0, 768}, {"zeros -> f32[8]", 1e-6, 0, 32}};
  return p;
}

}  // namespace weft::test
