// Writes a machine profile as TOML (declared in profile.hpp).
#include <fmt/core.h>

#include "base/hash.hpp"
#include "base/quoted.hpp"
#include "machine/profile.hpp"

namespace weft::machine {
namespace {

void put(std::string& text, std::string_view key, double value, std::string_view unit) {
  // The shortest number that reads back alike.
  text += fmt::format("{:<18} = {:<12}  # {}\n", key, value, unit);
}

void put(std::string& text, const CollectiveCurve& curve) {
  text += fmt::format("\n[[collective]]\nop = \"{}\"\nwire = \"{}\"\nranks = {}\nnodes = {}\n",
                      name_of(curve.op), name_of(curve.wire), curve.ranks, curve.nodes);
  text += "points = [  # bytes a rank sends, seconds\n";
  for (const CollectivePoint& p : curve.points) text += fmt::format("  [{}, {}],\n", p.bytes, p.seconds);
  text += "]\n";
}

}  // namespace

std::string print_profile(const Profile& p) {
  std::string text =
      "# A machine profile of Weft: docs/running.md has its meaning. Numbers are of one rank.\n";
  text += fmt::format("name = {}\nranks_per_node = {}\n", weft::quoted(p.name), p.ranks_per_node);
  text += "\n[compute]\n";
  put(text, "threads", p.compute.threads, "host threads; 0: a GPU");
  put(text, "matmul_f32", p.compute.matmul_f32, "FLOP/s");
  put(text, "matmul_bf16", p.compute.matmul_bf16, "FLOP/s");
  if (p.compute.matmul_f8 > 0) put(text, "matmul_f8", p.compute.matmul_f8, "FLOP/s, a scale for each row");
  if (p.compute.matmul_f8_tensorwise > 0)
    put(text, "matmul_f8_tensorwise", p.compute.matmul_f8_tensorwise, "FLOP/s, one scale");
  put(text, "attention", p.compute.attention, "FLOP/s");
  put(text, "bytes_per_s", p.compute.bytes_per_s, "memory, reads and writes");
  put(text, "launch_s", p.compute.launch_s, "the least that a kernel takes");
  put(text, "memory_bytes", p.compute.memory_bytes, "that a rank can have; 0: not known");
  if (p.compute.peak_f32 > 0) put(text, "peak_f32", p.compute.peak_f32, "FLOP/s by the data sheet, for MFU");
  if (p.compute.peak_bf16 > 0)
    put(text, "peak_bf16", p.compute.peak_bf16, "FLOP/s by the data sheet, for MFU");
  text += "\n[sharing]\n";
  put(text, "link_bytes_per_s", p.sharing.link_bytes_per_s, "sent, both lanes together");
  put(text, "both_lanes", p.sharing.both_lanes, "speed of a lane beside the other, alone = 1");
  put(text, "beside_compute", p.sharing.beside_compute, "speed of a lane beside kernels, alone = 1");
  put(text, "stolen_s_per_byte", p.sharing.stolen_s_per_byte, "compute lost a byte sent");
  if (const auto& replica = p.sharing.replica) {
    text += "\n[sharing.replica]\n";
    put(text, "beside_lanes", replica->beside_lanes, "speed of the two at once, alone = 1");
    put(text, "beside_compute", replica->beside_compute, "speed of sums over replicas beside kernels");
    put(text, "stolen_s_per_byte", replica->stolen_s_per_byte, "compute lost a byte sent");
  }
  for (const CollectiveCurve& curve : p.collectives) put(text, curve);
  text += "\n[kernels]  # seconds, FLOP, bytes\n";
  for (const KernelSample& k : p.kernels)
    text += fmt::format("{} = [{}, {}, {}]\n", weft::quoted(k.signature), k.seconds, k.flops, k.bytes);
  if (!p.algorithms.empty())
    text +=
        "\n[algorithms]  # of the products that are faster by another than their library's first choice\n";
  for (const auto& [product, algorithm] : p.algorithms)
    text += fmt::format("{} = {}\n", weft::quoted(product), weft::quoted(algorithm));
  return text;
}

std::uint64_t hash_of(const Profile& profile) {
  return hash_text(print_profile(profile));
}

}  // namespace weft::machine
