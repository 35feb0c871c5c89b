#include "measure/machine.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/device.hpp"
#include "comm/agree.hpp"
#include "kernels/matmul.hpp"
#include "kernels/space.hpp"
#include "machine/predict.hpp"
#include "measure/collectives.hpp"
#include "measure/exchanges.hpp"
#include "measure/rates.hpp"
#include "measure/sharing.hpp"
#include "measure/step.hpp"
#include "measure/timing.hpp"
#include "runtime/memory_usage.hpp"

namespace weft::measure {
namespace {

constexpr double largest_collective = 256 << 20;

int nodes_of(const comm::World& world) {
  return static_cast<int>(std::set<std::string>(world.hosts().begin(), world.hosts().end()).size());
}

/// Collective: the most hosts that a group of the axis reaches over.
int nodes_of(runtime::Session& session, std::string_view axis) {
  std::set<std::string> hosts;
  for (const int rank : session.mesh().group(session.rank(), session.mesh().axis(axis)))
    hosts.insert(session.world().hosts()[static_cast<std::size_t>(rank)]);
  return static_cast<int>(slowest(session.world(), static_cast<double>(hosts.size())));
}

ReduceOrder order_of(const Deck* deck) {
  return deck == nullptr ? ReduceOrder::canonical : deck->precision.reduction;
}

/// The largest size at which all of the large collectives were measured.
double common_size(const std::vector<machine::CollectiveCurve>& curves) {
  double bytes = largest_collective;
  for (const machine::CollectiveCurve& c : curves)
    if (c.op != ir::Op::all_reduce) bytes = std::min(bytes, c.points.back().bytes);
  return bytes;
}

/// The compute that runs beside the collectives, for tenths of a second, so that they fit beside it. It is
/// the deck's step, again and again, or products and sums where there is no such step or where it is long.
std::function<void()> compute_of(runtime::Session& session, const std::shared_ptr<Step>& step,
                                 double step_seconds) {
  constexpr double shortest = 0.15, longest = 1;
  const auto times = [](double once) { return static_cast<int>(std::clamp(shortest / once, 1.0, 1000.0)); };
  if (step && step_seconds < longest)
    return [step, n = times(step_seconds)] {
      for (int i = 0; i < n; ++i) step->run();
    };
  const auto work = std::make_shared<Busywork>(session);
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) seconds.push_back(seconds_of([&] { work->run(1); }));
  const double once = slowest(session.world(), least(seconds));
  return [work, n = times(once)] { work->run(n); };
}

/// Collective: the memory that a rank can have, rounded down to few digits, because a plan may take all of
/// it.
double memory_of_a_rank(comm::World& world) {
  constexpr double unit = 1e7;
  return unit * std::floor(static_cast<double>(runtime::least_left_for_a_rank(world)) / unit);
}

/// The number with few digits. More would only make the file harder to read.
double rounded(double x) {
  return std::strtod(fmt::format("{:.4g}", x).c_str(), nullptr);
}

void round_all(machine::Profile& p) {
  for (double* x :
       {&p.compute.matmul_f32, &p.compute.matmul_bf16, &p.compute.matmul_f8, &p.compute.matmul_f8_tensorwise,
        &p.compute.attention, &p.compute.bytes_per_s, &p.compute.launch_s, &p.sharing.link_bytes_per_s,
        &p.sharing.both_lanes, &p.sharing.beside_compute, &p.sharing.stolen_s_per_byte})
    *x = rounded(*x);
  if (auto& replica = p.sharing.replica)
    for (double* x : {&replica->beside_lanes, &replica->beside_compute, &replica->stolen_s_per_byte})
      *x = rounded(*x);
  for (machine::CollectiveCurve& c : p.collectives)
    for (machine::CollectivePoint& point : c.points) point.seconds = rounded(point.seconds);
  for (machine::KernelSample& k : p.kernels) k.seconds = rounded(k.seconds);
}

void take(CollectiveSweep sweep, Measured& m) {
  std::move(sweep.curves.begin(), sweep.curves.end(), std::back_inserter(m.profile.collectives));
  std::move(sweep.skipped.begin(), sweep.skipped.end(), std::back_inserter(m.notes));
}

/// Fills in assumed numbers where state is not cut, and there are no gathers and reductions to measure.
void assume_collectives(Measured& m) {
  const machine::Profile assumed =
      default_profile(device_is_host() ? machine::DefaultProfile::host : machine::DefaultProfile::h100);
  const bool sums_measured = !m.profile.collectives.empty();
  const auto replica = m.profile.sharing.replica;
  m.profile.sharing = assumed.sharing;
  m.profile.sharing.replica = replica;
  for (const machine::CollectiveCurve& c : assumed.collectives)
    if (!sums_measured || c.op != ir::Op::all_reduce) m.profile.collectives.push_back(c);
  m.notes.push_back(fmt::format("collectives need two ranks or more on the data axis: those of '{}' stand in",
                                assumed.name));
}

}  // namespace

std::string name_of_machine(const comm::World& world, F32Products products) {
  const int nodes = nodes_of(world);
  std::string name = fmt::format("{} rank{} on {}", world.size(), world.size() == 1 ? "" : "s",
                                 nodes == 1 ? world.hosts()[0] : fmt::format("{} nodes", nodes));
  if (device_is_host()) {
    const int threads = kernels::concurrency();
    name += fmt::format(", {} thread{} a rank", threads, threads == 1 ? "" : "s");
  }
  // Kernels' times depend on it, and their signatures do not say it.
  return name + fmt::format(", fp32 products by {}", kernels::product_method(DType::f32, products));
}

Measured measure_machine(const Deck* deck, runtime::Session& session, const MachineOptions& options) {
  comm::World& world = session.world();
  Measured m;
  machine::Profile& p = m.profile;
  p.ranks_per_node = static_cast<int>(slowest(world, world.node_size()));
  p.compute = measure_rates(session);
  if (!device_is_host()) comm::tell_kept_warnings(world);
  p.name = name_of_machine(world, (deck != nullptr ? deck->precision : PrecisionDeck{}).f32_products);
  std::unique_ptr<Exchanges> exchanges;
  if (session.shards() > 1) {
    exchanges = std::make_unique<Exchanges>(session, largest_collective, order_of(deck));
    take(measure_collectives(*exchanges, world, nodes_of(session, data_axis),
                             (session.replicas() > 1 ? 0.3 : 0.5) * options.seconds),
         m);
    exchanges.reset();  // the step may need their memory
  }
  if (session.replicas() > 1) {
    ReplicaSums sums(session, largest_collective, order_of(deck));
    take(measure_replicas(sums, world, nodes_of(session, replica_axis), 0.2 * options.seconds), m);
  }
  // Libraries hold by now what they take at their first calls, which a plan cannot have.
  p.compute.memory_bytes = memory_of_a_rank(world);
  std::shared_ptr<Step> step;
  if (deck != nullptr) {
    step = std::make_shared<Step>(*deck, session);
    m.algorithms = step->algorithms();
    p.algorithms = m.algorithms.chosen;
    m.compute_only = step->seconds(0.1 * options.seconds);
    p.kernels = step->kernels(0.15 * options.seconds);
    m.sum_of_kernels = slowest(world, predict(step->plan().graph, machine::CostModel(p)).compute_s);
  }
  std::function<void()> compute;
  if (session.shards() > 1 || session.replicas() > 1)
    compute = compute_of(session, step, m.compute_only.value_or(0));
  const double bytes = std::min(common_size(p.collectives), 64.0 * (1 << 20));
  if (session.shards() > 1) {
    exchanges = std::make_unique<Exchanges>(session, bytes, order_of(deck));
    exchanges->hold(exchanges->most());
    p.sharing = measure_sharing(*exchanges, world, exchanges->most(), compute,
                                (session.replicas() > 1 ? 0.15 : 0.25) * options.seconds);
  }
  if (session.replicas() > 1) {
    ReplicaSums sums(session, bytes, order_of(deck));
    sums.hold(sums.most());
    p.sharing.replica =
        measure_replica_sharing(sums, exchanges.get(), world, compute, 0.15 * options.seconds);
  }
  round_all(p);
  if (session.shards() == 1) assume_collectives(m);
  return m;
}

}  // namespace weft::measure
