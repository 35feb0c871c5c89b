// The machines that Weft ships with (declared in profile.hpp). Each number is its maker's, for one device,
// unless it says otherwise; what a program reaches of it is one share for each class of kernels, the same for
// all GPUs.
#include <algorithm>
#include <array>
#include <cmath>

#include "machine/profile.hpp"

namespace weft::machine {
namespace {

/// What well-tuned codes reach of a data sheet.
namespace reached {
constexpr double f32 = 0.7;        // of the peak without TF32: fp32 operands are never rounded
constexpr double bf16 = 0.6;       // of the dense peak, in products as large as a Llama's
constexpr double f8 = 0.6;         // likewise
constexpr double attention = 0.4;  // of the dense bf16 peak: causal, forward and backward together
constexpr double memory = 0.8;
constexpr double near = 0.8;   // of a link inside a host, by rings of NCCL
constexpr double far = 0.9;    // of a network card
constexpr double room = 0.92;  // of the memory: CUDA, NCCL and cuBLAS take the rest
}  // namespace reached

/// A host of GPUs with a network card each, which the ranks of the other hosts are reached by.
struct GpuMachine {
  const char* name;
  const char* title;
  double f32, bf16;     // FLOP/s, dense; f32 outside of tensor cores
  double f8;            // likewise; 0: there is none
  bool f8_rowwise;      // whether cuBLASLt has products with scales for each row there
  double memory_bytes;  // of the device
  double bytes_per_s;   // of that memory
  int per_host;
  double link;       // bytes/s of a GPU to the others of its host, in each direction
  double card;       // bytes/s, in each direction
  double power = 1;  // watts that the board may draw, over those of the data sheet
};

constexpr std::array gpu_machines{
    // NVIDIA A100 80GB data sheet (2021): NVLink 600 GB/s both ways. DGX A100: a 200 Gbit/s card a GPU.
    GpuMachine{"a100", "A100 SXM 80 GB", 19.5e12, 312e12, 0, false, 80e9, 2.039e12, 8, 300e9, 25e9},
    // NVIDIA H100 data sheet (2023), SXM: 989.4 TFLOP/s are without sparsity, NVLink 900 GB/s both ways. DGX
    // H100:
    // a 400 Gbit/s card a GPU.
    GpuMachine{"h100", "H100 SXM 80 GB", 67e12, 989e12, 1979e12, true, 80e9, 3.35e12, 8, 450e9, 50e9},
    // The H100 of torchtitan's benchmarks (its page "performance"): 96 GB of HBM2e with 2.4 TB/s, at 500 W.
    // Its authors say that its peak lies between the data sheets of SXM and of NVL (835 TFLOP/s).
    GpuMachine{"h100-96", "H100 SXM 96 GB HBM2e, 500 W", 67e12, 989e12, 1979e12, true, 96e9, 2.4e12, 8, 450e9,
               50e9, 500.0 / 700},
    // NVIDIA H200 data sheet (2024), SXM.
    GpuMachine{"h200", "H200 SXM 141 GB", 67e12, 989e12, 1979e12, true, 141e9, 4.8e12, 8, 450e9, 50e9},
    // NVIDIA HGX B200 (2025), at 1,000 W. Pages of others agree on bf16, on about 180 GB and on NVLink's 1.8
    // TB/s both
    // ways; they give 80 TFLOP/s of fp32 and 8 TB/s.
    GpuMachine{"b200", "HGX B200 180 GB", 75e12, 2250e12, 4500e12, false, 180e9, 7.7e12, 8, 900e9, 50e9},
    // NVIDIA GH200 data sheet (2023), HBM3, four to a host as on Alps: NVLink 900 GB/s both ways in all, a
    // Slingshot
    // card of 200 Gbit/s each.
    GpuMachine{"gh200", "GH200 96 GB, four a host", 67e12, 989e12, 1979e12, true, 96e9, 4.0e12, 4, 450e9,
               25e9},
};

/// A server of two sockets, with a rank on each, and one card of 200 Gbit/s that both use.
struct CpuMachine {
  const char* name;
  const char* title;
  int cores;                   // of a socket
  double f32, bf16;            // FLOP/s of a socket: the maker's clock times operations a cycle
  double f32_rate, bf16_rate;  // what Weft reaches
  double memory_bytes;         // of a socket
  double bytes_per_s;          // of a socket
};

constexpr std::array cpu_machines{
    // Intel Xeon Platinum 8480+: 2.0 GHz, 64 operations of fp32 a cycle by AVX-512 and 2,048 of bf16 by AMX,
    // eight
    // channels of DDR5-4800. On a core of this project's machines fp32 products by AMX reach 250 to 310
    // GFLOP/s
    // (docs/kernels.md), which is 1.5 to 1.9 TFLOP/s of bf16, a third of AMX's peak there.
    CpuMachine{"xeon-8480", "two Xeon Platinum 8480+ (AMX)", 56, 7.2e12, 229e12, 229e12 / 3 / 6, 229e12 / 3,
               256e9, 307e9},
    // AMD EPYC 9654: 2.4 GHz, 32 operations of fp32 a cycle and 64 of bf16 (AVX-512 in two halves), twelve
    // channels of
    // DDR5-4800. Assumed: large products reach 0.8 of that.
    CpuMachine{"epyc-9654", "two EPYC 9654 (AVX-512)", 96, 7.4e12, 14.7e12, 7.4e12 * 0.8, 14.7e12 * 0.8,
               384e9, 461e9},
};

constexpr std::array collectives{ir::Op::all_gather, ir::Op::reduce_scatter, ir::Op::all_reduce};

/// Rings cross a host's border once for all ranks of the host, through all of its cards. The canonical
/// reduce_scatter exchanges slices, so each byte for another host leaves by itself: `exchanged` bytes/s a
/// rank.
void add_far_curves(Profile& p, double latency, double crossed, double exchanged) {
  const int ranks = 2 * p.ranks_per_node;
  for (const ir::Op op : collectives)
    p.collectives.push_back(
        assumed_curve(op, DType::f32, ranks, 2, latency, op == ir::Op::reduce_scatter ? exchanged : crossed));
}

Profile profile_of(const GpuMachine& m) {
  Profile p;
  p.name = m.title;
  p.ranks_per_node = m.per_host;
  p.compute.threads = 0;
  // Power goes with the clock times the square of the voltage. Where the voltage falls with the clock, the
  // clock goes with the cube root of the power; where it does not, with the power: the square root is between
  // them.
  const double clock = std::sqrt(m.power);
  p.compute.matmul_f32 = m.f32 * reached::f32 * clock;
  p.compute.matmul_bf16 = m.bf16 * reached::bf16 * clock;
  p.compute.matmul_f8_tensorwise = m.f8 * reached::f8 * clock;
  p.compute.matmul_f8 = m.f8_rowwise ? p.compute.matmul_f8_tensorwise : 0;
  p.compute.attention = m.bf16 * reached::attention * clock;
  p.compute.bytes_per_s = m.bytes_per_s * reached::memory;
  p.compute.launch_s = 4e-6;
  p.compute.memory_bytes = m.memory_bytes * reached::room;
  p.compute.peak_f32 = m.f32;
  p.compute.peak_bf16 = m.bf16;
  const double link = m.link * reached::near, card = m.card * reached::far;
  p.sharing.link_bytes_per_s = link;
  p.sharing.both_lanes = 0.5;
  p.sharing.beside_compute = 0.9;
  // NCCL's kernels hold about 16 of an H100's 132 multiprocessors while they send.
  p.sharing.stolen_s_per_byte = 0.12 / link;
  constexpr double latency = 20e-6;
  for (const ir::Op op : collectives)
    p.collectives.push_back(assumed_curve(op, DType::f32, m.per_host, 1, latency, link));
  add_far_curves(p, 2 * latency, m.per_host * card, card);
  return p;
}

Profile profile_of(const CpuMachine& m) {
  Profile p;
  p.name = m.title;
  p.ranks_per_node = 2;
  p.compute.threads = m.cores;
  p.compute.matmul_f32 = m.f32_rate;
  p.compute.matmul_bf16 = m.bf16_rate;
  p.compute.attention = m.f32 * 0.5;  // assumed; fp32 inside
  p.compute.bytes_per_s = m.bytes_per_s * reached::memory;
  p.compute.launch_s = 1e-5;  // assumed, for a region of all cores
  p.compute.memory_bytes = m.memory_bytes * reached::room;
  p.compute.peak_f32 = std::max(m.f32, m.f32_rate);
  p.compute.peak_bf16 = m.bf16;
  // A byte that goes to the other socket is read once and written twice.
  const double link = p.compute.bytes_per_s / 3;
  constexpr double card = 25e9 * reached::far;
  p.sharing.link_bytes_per_s = link;
  p.sharing.both_lanes = 0.5;
  p.sharing.beside_compute = 0.9;
  p.sharing.stolen_s_per_byte = 1.0 / m.cores / card;  // the communication thread has a core
  for (const ir::Op op : collectives)
    p.collectives.push_back(assumed_curve(op, DType::f32, 2, 1, 2e-5, link));
  add_far_curves(p, 1e-4, card, card / 2);
  return p;
}

}  // namespace

CollectiveCurve assumed_curve(ir::Op op, DType wire, int ranks, int nodes, double latency,
                              double bytes_per_s) {
  CollectiveCurve c{op, wire, ranks, nodes, {}};
  for (double bytes = 1 << 10; bytes <= 256 << 20; bytes *= 2)
    c.points.push_back({bytes, latency + bytes / bytes_per_s});
  return c;
}

std::vector<std::string> shipped_machine_names() {
  std::vector<std::string> names;
  for (const GpuMachine& m : gpu_machines) names.emplace_back(m.name);
  for (const CpuMachine& m : cpu_machines) names.emplace_back(m.name);
  return names;
}

std::optional<Profile> shipped_machine(std::string_view name) {
  for (const GpuMachine& m : gpu_machines)
    if (name == m.name) return profile_of(m);
  for (const CpuMachine& m : cpu_machines)
    if (name == m.name) return profile_of(m);
  return std::nullopt;
}

}  // namespace weft::machine
