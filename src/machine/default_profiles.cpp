// The profiles that are assumed where nothing was measured (declared in profile.hpp).
#include "machine/profile.hpp"

namespace weft::machine {
namespace {

/// A curve of latency + bytes / rate, at points between which a straight line in logarithms fits it to a few
/// per cent.
CollectiveCurve curve(ir::Op op, DType wire, int ranks, int nodes, double latency, double bytes_per_s) {
  CollectiveCurve c{op, wire, ranks, nodes, {}};
  for (double bytes = 1 << 10; bytes <= 256 << 20; bytes *= 2)
    c.points.push_back({bytes, latency + bytes / bytes_per_s});
  return c;
}

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
    p.collectives.push_back(curve(op, DType::f32, 2, 1, 6e-5, 2e9));
    p.collectives.push_back(curve(op, DType::f32, 4, 2, 1.5e-4, 5e8));
  }
  return p;
}

/// The profile of a DGX H100: NVIDIA's data sheet, and the share of it that well-tuned codes reach.
Profile h100_default() {
  Profile p;
  p.name = "H100 default";
  p.ranks_per_node = 8;
  p.compute.threads = 0;
  p.compute.matmul_f32 = 67e12 * 0.7;    // no TF32: fp32 operands are never rounded
  p.compute.matmul_bf16 = 989e12 * 0.6;  // dense peak
  p.compute.attention = 989e12 * 0.4;    // causal, forward and backward together
  p.compute.bytes_per_s = 3.35e12 * 0.8;
  p.compute.launch_s = 4e-6;
  p.compute.memory_bytes = 80e9 * 0.92;   // what CUDA, NCCL and cuBLAS leave
  constexpr double nvlink = 450e9 * 0.8;  // in each direction
  constexpr double nic = 50e9 * 0.9;      // 400 Gbit/s, one card a GPU
  p.sharing.link_bytes_per_s = nvlink;
  p.sharing.both_lanes = 0.5;
  p.sharing.beside_compute = 0.9;
  // NCCL's kernels hold about 16 of 132 multiprocessors while they send.
  p.sharing.stolen_s_per_byte = 0.12 / nvlink;
  constexpr double latency = 20e-6;
  for (const ir::Op op : {ir::Op::all_gather, ir::Op::reduce_scatter, ir::Op::all_reduce})
    p.collectives.push_back(curve(op, DType::f32, 8, 1, latency, nvlink));
  // These are the curves between hosts. Rings cross a host's border once for all eight GPUs, through eight
  // network cards. The canonical reduce_scatter exchanges slices, so each byte for another host leaves
  // through its rank's own card.
  p.collectives.push_back(curve(ir::Op::all_gather, DType::f32, 16, 2, 2 * latency, 8 * nic));
  p.collectives.push_back(curve(ir::Op::all_reduce, DType::f32, 16, 2, 2 * latency, 8 * nic));
  p.collectives.push_back(curve(ir::Op::reduce_scatter, DType::f32, 16, 2, 2 * latency, nic));
  return p;
}

}  // namespace

Profile default_profile(DefaultProfile which) {
  return which == DefaultProfile::h100 ? h100_default() : host_default();
}

}  // namespace weft::machine
