#include "measure/collectives.hpp"

#include <fmt/core.h>

#include <cmath>

#include "measure/timing.hpp"
#include "plan/report.hpp"

namespace weft::measure {
namespace {

constexpr double smallest = 1 << 10;
constexpr double always = 1 << 20;  ///< up to here whatever the time: a plan's small messages need a latency
constexpr double most_of_all = 256 << 20;
constexpr double most_all_reduce = 1 << 20;

/// What is swept: an operation and a type on the wire.
struct Kind {
  ir::Op op;
  DType wire;
  double most;
};

comm::Event start(Exchanges& exchanges, const Kind& kind, double bytes) {
  switch (kind.op) {
    case ir::Op::all_gather: return exchanges.gather(bytes);
    case ir::Op::reduce_scatter: return exchanges.reduce(bytes, kind.wire);
    default: return exchanges.all_reduce(bytes);
  }
}

/// As many as fit into `share` seconds, if that is a sensible number.
int repeats_for(double seconds, double share) {
  return static_cast<int>(std::clamp(share / seconds, 3.0, 41.0));
}

/// One operation waits for all ranks, so repeats keep them together without barriers, which would show in the
/// small ones.
double time_one(Exchanges& exchanges, comm::World& world, const Kind& kind, double bytes, int repeats) {
  exchanges.hold(bytes);
  comm::sync(start(exchanges, kind, bytes));
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i)
    seconds.push_back(seconds_of([&] { comm::sync(start(exchanges, kind, bytes)); }));
  return slowest(world, median(std::move(seconds)));
}

std::string reason(double bytes, const Kind& kind, const char* why) {
  return fmt::format("{} {} above {}: {}", name_of(kind.op), name_of(kind.wire),
                     plan::bytes_text(static_cast<std::int64_t>(bytes)), why);
}

machine::CollectiveCurve sweep(Exchanges& exchanges, comm::World& world, const Kind& kind, double seconds,
                               std::vector<std::string>& skipped) {
  machine::CollectiveCurve curve;
  curve.op = kind.op;
  curve.wire = kind.wire;
  curve.ranks = exchanges.ranks();
  world.barrier();  // a rank that is late with its memory does not cost time here
  const double start = seconds_now();
  double last = 1e-3;  // seconds; a guess for the first
  for (double bytes = smallest; bytes <= kind.most; bytes *= 2) {
    if (bytes > exchanges.most()) {
      skipped.push_back(reason(bytes / 2, kind, "not enough memory"));
      break;
    }
    const double left = seconds - slowest(world, seconds_now() - start);  // equal on all ranks
    if (bytes > always && 2 * last * (1 + 3) > left) {  // it has twice the bytes, and warms up
      skipped.push_back(reason(bytes / 2, kind, "not enough time (--seconds)"));
      break;
    }
    last = time_one(exchanges, world, kind, bytes, repeats_for(2 * last, seconds / 40));
    curve.points.push_back({exchanges.sent(kind.op, bytes, kind.wire), last});
  }
  return curve;
}

/// Sizes in whole elements may meet where a rank sends next to nothing to each of many.
void drop_equal_sizes(machine::CollectiveCurve& curve) {
  const auto same = [](const auto& a, const auto& b) { return a.bytes >= b.bytes; };
  curve.points.erase(std::unique(curve.points.begin(), curve.points.end(), same), curve.points.end());
}

}  // namespace

CollectiveSweep measure_collectives(Exchanges& exchanges, comm::World& world, int nodes, double seconds) {
  CollectiveSweep result;
  for (const Kind& kind : {Kind{ir::Op::all_gather, DType::f32, most_of_all},
                           Kind{ir::Op::reduce_scatter, DType::f32, most_of_all},
                           Kind{ir::Op::reduce_scatter, DType::bf16, most_of_all},
                           Kind{ir::Op::all_reduce, DType::f32, most_all_reduce}}) {
    result.curves.push_back(sweep(exchanges, world, kind, seconds / 4, result.skipped));
    result.curves.back().nodes = nodes;
    drop_equal_sizes(result.curves.back());
  }
  return result;
}

}  // namespace weft::measure
