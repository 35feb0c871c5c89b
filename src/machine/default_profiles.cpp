// The profiles that are assumed where nothing was measured (declared in profile.hpp).
#include "machine/profile.hpp"

namespace weft::machine {
namespace {

/// The profile of one thread of the project's 2-core machines (AVX-512 with bf16, no AMX), with both cores at
/// work. Between hosts it assumes 10 Gbit/s Ethernet shared by two ranks. Nobody measured that, and a cluster
/// that has better says so in a profile.
Profile host_default() {
  Profile p;
  p.name = "host default";
  p.ranks_per_node = 2;
  p.compute.threads = 1;
  p.compute.matmul_f32 = 1.1e11;   // oneDNN 2.6 on both cores: 216 to 231 GFLOP/s
  p.compute.matmul_bf16 = 2.5e11;  // AVX-512's bf16, half of what two cores reach without AMX
  p.compute.attention = 8e10;      // tiled, fp32 inside: 40 to 140 measured on a shared core
  p.compute.bytes_per_s = 1.2e10;  // triad: 24 GB/s on two threads
  p.compute.launch_s = 2e-6;
  p.sharing.link_bytes_per_s = 2e9;  // through Open MPI's shared memory: a copy in and a copy out
  p.sharing.both_lanes = 0.5;        // one communication thread serves both lanes
  p.sharing.beside_compute = 0.5;    // the communication thread shares its rank's core
  p.sharing.stolen_s_per_byte = 5e-10;
  for (const ir::Op op : {ir::Op::all_gather, ir::Op::reduce_scatter, ir::Op::all_reduce}) {
    p.collectives.push_back(assumed_curve(op, DType::f32, 2, 1, 6e-5, 2e9));
    p.collectives.push_back(assumed_curve(op, DType::f32, 4, 2, 1.5e-4, 5e8));
  }
  return p;
}

}  // namespace

Profile default_profile(DefaultProfile which) {
  return which == DefaultProfile::h100 ? *shipped_machine("h100") : host_default();
}

}  // namespace weft::machine
