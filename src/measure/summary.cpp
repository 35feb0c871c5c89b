// The summary of `weft profile` (declared in machine.hpp).
#include <fmt/core.h>

#include "measure/machine.hpp"

namespace weft::measure {
namespace {

std::string rate_text(double per_s, const char* unit) {
  if (per_s >= 1e12) return fmt::format("{:.3g} T{}/s", per_s / 1e12, unit);
  if (per_s >= 1e9) return fmt::format("{:.3g} G{}/s", per_s / 1e9, unit);
  return fmt::format("{:.3g} M{}/s", per_s / 1e6, unit);
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", 1e3 * seconds);
  return fmt::format("{:.3g} us", 1e6 * seconds);
}

std::string size_text(double bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:.3g} MiB", bytes / (1 << 20));
  return fmt::format("{:.3g} KiB", bytes / 1024);
}

/// The smallest measured size that reaches half of the largest size's bandwidth.
double half_bandwidth_size(const machine::CollectiveCurve& curve) {
  const machine::CollectivePoint& last = curve.points.back();
  for (const machine::CollectivePoint& p : curve.points)
    if (p.bytes / p.seconds >= 0.5 * last.bytes / last.seconds) return p.bytes;
  return last.bytes;
}

std::string collectives_text(const machine::Profile& p) {
  std::string text = fmt::format("\n{:<34} {:>12} {:>12} {:>14} {:>16}\n", "collectives, a rank's bytes sent",
                                 "smallest", "largest", "there", "half of that at");
  for (const machine::CollectiveCurve& c : p.collectives) {
    const machine::CollectivePoint& last = c.points.back();
    text += fmt::format("  {:<32} {:>12} {:>12} {:>14} {:>16}\n",
                        fmt::format("{} {}, {} ranks", name_of(c.op), name_of(c.wire), c.ranks),
                        time_text(c.points.front().seconds), size_text(last.bytes),
                        rate_text(last.bytes / last.seconds, "B"), size_text(half_bandwidth_size(c)));
  }
  return text;
}

std::string sharing_text(const machine::Sharing& s) {
  std::string text = fmt::format(
      "\nboth lanes at once                 {} sent by a rank; each at {:.2f} of its speed alone\n"
      "beside compute                     collectives at {:.2f} of their speed; compute loses {} a GB sent\n",
      rate_text(s.link_bytes_per_s, "B"), s.both_lanes, s.beside_compute,
      time_text(1e9 * s.stolen_s_per_byte));
  if (s.replica)
    text += fmt::format(
        "sums over replicas                 beside compute at {:.2f} of their speed, beside a gather at "
        "{:.2f}; "
        "compute loses {} a GB sent\n",
        s.replica->beside_compute, s.replica->beside_lanes, time_text(1e9 * s.replica->stolen_s_per_byte));
  return text;
}

}  // namespace

std::string summary(const Measured& measured) {
  const machine::Profile& p = measured.profile;
  std::string text = fmt::format("machine: {}\n", p.name);
  const double f8 = std::max(p.compute.matmul_f8, p.compute.matmul_f8_tensorwise);
  text += fmt::format("compute of a rank                  matmul f32 {}, bf16 {}{}, attention {}\n",
                      rate_text(p.compute.matmul_f32, "FLOP"), rate_text(p.compute.matmul_bf16, "FLOP"),
                      f8 > 0 ? fmt::format(", Float8 {}", rate_text(f8, "FLOP")) : "",
                      rate_text(p.compute.attention, "FLOP"));
  text += fmt::format("memory of a rank                   {}; the smallest kernel takes {}\n",
                      rate_text(p.compute.bytes_per_s, "B"), time_text(p.compute.launch_s));
  text += collectives_text(p) + sharing_text(p.sharing);
  if (measured.compute_only)
    text += fmt::format(
        "the deck's step                    {} distinct kernels, {} in all; without collectives {}\n",
        p.kernels.size(), time_text(measured.sum_of_kernels), time_text(*measured.compute_only));
  if (const Algorithms& a = measured.algorithms; a.products > 0)
    text += fmt::format(
        "products by their fastest algorithm {} of {} take another than the library's first choice; one of "
        "each kind {} instead of {}\n",
        a.chosen.size(), a.products, time_text(a.chosen_s), time_text(a.first_s));
  for (const std::string& note : measured.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace weft::measure
