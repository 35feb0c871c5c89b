#include "measure/collectives.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/text.hpp"
#include "kernels/memory.hpp"
#include "measure/timing.hpp"

namespace weft::measure {
namespace {

constexpr double smallest = 1 << 10;
/// Sizes up to here are measured whatever the time, because a plan's small messages need a latency.
constexpr double always = 1 << 20;
constexpr double most_of_all = 256 << 20;

/// A collective that is swept: one in which a rank sends about `bytes`, among `ranks` ranks.
struct Swept {
  ir::Op op;
  DType wire;
  int ranks;
  double most;                       ///< the most bytes that there is memory for
  std::function<void(double)> hold;  ///< makes room for this many bytes
  std::function<comm::Event(double)> start;
  std::function<double(double)> sent;  ///< how many bytes a rank really sends
};

/// As many repeats as fit into `share` seconds, within sensible numbers.
int repeats_for(double seconds, double share) {
  return static_cast<int>(std::clamp(share / seconds, 3.0, 41.0));
}

/// Measures one size. A collective waits for all ranks, so repeats keep the ranks together without barriers,
/// whose time would show in the small sizes.
double time_one(const Swept& what, comm::World& world, double bytes, int repeats) {
  what.hold(bytes);
  comm::sync(what.start(bytes));
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) seconds.push_back(seconds_of([&] { comm::sync(what.start(bytes)); }));
  return slowest(world, median(std::move(seconds)));
}

std::string reason(double bytes, const Swept& what, const char* why) {
  return fmt::format("{} {} above {}: {}", name_of(what.op), name_of(what.wire),
                     bytes_text(static_cast<std::int64_t>(bytes)), why);
}

void sweep(const Swept& what, comm::World& world, int nodes, double seconds, CollectiveSweep& result) {
  machine::CollectiveCurve curve;
  curve.op = what.op;
  curve.wire = what.wire;
  curve.ranks = what.ranks;
  curve.nodes = nodes;
  world.barrier();  // a rank that is late with its memory does not cost time here
  const double start = seconds_now();
  double last = 1e-3;  // in seconds; the first is a guess
  for (double bytes = smallest; bytes <= most_of_all; bytes *= 2) {
    if (bytes > what.most) {
      result.skipped.push_back(reason(bytes / 2, what, "not enough memory"));
      break;
    }
    const double left = seconds - slowest(world, seconds_now() - start);  // equal on all ranks
    if (bytes > always && 2 * last * (1 + 3) > left) {  // the next size has twice the bytes, and is warmed up
      result.skipped.push_back(reason(bytes / 2, what, "not enough time (--seconds)"));
      break;
    }
    last = time_one(what, world, bytes, repeats_for(2 * last, seconds / 40));
    curve.points.push_back({what.sent(bytes), last});
  }
  // Sizes are whole elements, so neighbours may be equal where a rank sends next to nothing to each of many
  // others.
  const auto same = [](const auto& a, const auto& b) { return a.bytes >= b.bytes; };
  curve.points.erase(std::unique(curve.points.begin(), curve.points.end(), same), curve.points.end());
  result.curves.push_back(std::move(curve));
}

Swept swept(Exchanges& x, ir::Op op, DType wire) {
  std::function<comm::Event(double)> start;
  switch (op) {
    case ir::Op::all_gather: start = [&x](double bytes) { return x.gather(bytes); }; break;
    case ir::Op::reduce_scatter: start = [&x, wire](double bytes) { return x.reduce(bytes, wire); }; break;
    default: start = [&x](double bytes) { return x.all_reduce(bytes); }; break;
  }
  return {op,
          wire,
          x.ranks(),
          x.most(),
          [&x](double bytes) { x.hold(bytes); },
          std::move(start),
          [&x, op, wire](double bytes) { return x.sent(op, bytes, wire); }};
}

}  // namespace

CollectiveSweep measure_collectives(Exchanges& exchanges, comm::World& world, int nodes, double seconds) {
  CollectiveSweep result;
  for (const auto& [op, wire] :
       {std::pair{ir::Op::all_gather, DType::f32}, std::pair{ir::Op::reduce_scatter, DType::f32},
        std::pair{ir::Op::reduce_scatter, DType::bf16}, std::pair{ir::Op::all_reduce, DType::f32}})
    sweep(swept(exchanges, op, wire), world, nodes, seconds / 4, result);
  return result;
}

CollectiveSweep measure_replicas(ReplicaSums& sums, comm::World& world, int nodes, double seconds) {
  CollectiveSweep result;
  sweep({ir::Op::all_reduce, DType::f32, sums.ranks(), sums.most(), [&](double bytes) { sums.hold(bytes); },
         [&](double bytes) { return sums.start(bytes); }, [&](double bytes) { return sums.sent(bytes); }},
        world, nodes, seconds, result);
  return result;
}

}  // namespace weft::measure
