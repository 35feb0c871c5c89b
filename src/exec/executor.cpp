#include "exec/executor.hpp"

#include <array>
#include <set>
#include <utility>

#include "base/clock.hpp"
#include "exec/shapes.hpp"
#include "kernels/region.hpp"

namespace weft::exec {
namespace {

constexpr std::array communication_lanes{Lane::gather, Lane::reduce, Lane::replica};

double busy(const Device& device) {
  double seconds = 0;
  for (const Lane lane : communication_lanes)
    if (const comm::Channel* const channel = channel_of(device, lane)) seconds += channel->busy_seconds();
  return seconds;
}

}  // namespace

Executor::Executor(plan::Plan plan, const Device& device, Memory& memory, int rank)
    : plan_(std::move(plan)), device_(device), memory_(memory), rank_(rank) {
  locate_ = [this](ir::ValueId v) { return address(plan_.locations[v.index()]); };
  bind();
}

std::byte* Executor::address(const plan::Location& location) const {
  std::byte* base = location.space == plan::Location::Space::arena
                        ? memory_.arena()
                        : memory_.storage(plan_.graph.storage(location.storage).name);
  return base + location.offset + location.rank_stride * rank_;
}

void Executor::bind() {
  std::set<std::pair<Lane, std::uint64_t>> waited_for;
  for (const plan::Instruction& i : plan_.instructions)
    for (const plan::Wait& wait : i.waits) waited_for.emplace(wait.lane, wait.sequence);
  for (const plan::Instruction& instruction : plan_.instructions) {
    const ir::Node& node = plan_.graph.node(instruction.node);
    std::byte* scratch = instruction.scratch.bytes > 0 ? address(instruction.scratch) : nullptr;
    Bound bound;
    bound.instruction = &instruction;
    bound.signals = waited_for.contains({instruction.lane, instruction.sequence});
    if (instruction.lane == Lane::compute) {
      bound.kernel = bind_kernel(plan_.graph, node, device_, locate_, scratch);
    } else {
      bound.collective = bind_collective(plan_.graph, node, device_, locate_, scratch);
    }
    events_[static_cast<std::size_t>(instruction.lane)].resize(instruction.sequence);
    bound_.push_back(std::move(bound));
  }
}

void Executor::run_kernel(const Bound& bound, Run mode, Trace* trace) {
  const plan::Instruction& instruction = *bound.instruction;
  const ir::Node& node = plan_.graph.node(instruction.node);
  if (mode == Run::full && !instruction.waits.empty()) {
    const double before = seconds_now();
    for (const plan::Wait& wait : instruction.waits) device_.compute.wait(event_of(wait.lane, wait.sequence));
    waiting_ += seconds_now() - before;
  }
  Span span;
  if (trace != nullptr) {
    span.name = name_of(node.op);
    span.category = name_of(node.phase);
    span.path = node.module;
    span.start_ns = Trace::now_ns();
  }
  {
    const kernels::Region region(node.module.c_str());
    bound.kernel();
  }
  if (trace != nullptr) {
    device_.compute.finish();  // a traced step is synchronous, so that spans are the kernels' own
    span.end_ns = Trace::now_ns();
    trace->record(Lane::compute, span);
  }
  if (bound.signals) event_of(Lane::compute, instruction.sequence) = device_.compute.mark();
}

void Executor::start_collective(const Bound& bound) {
  const plan::Instruction& instruction = *bound.instruction;
  std::array<comm::Event, lane_count> deps;
  std::size_t n = 0;
  for (const plan::Wait& wait : instruction.waits) deps[n++] = event_of(wait.lane, wait.sequence);
  event_of(instruction.lane, instruction.sequence) = bound.collective(std::span(deps.data(), n));
}

void Executor::show(const Bound& bound, Tap& tap) {
  const plan::Instruction& instruction = *bound.instruction;
  if (!tap.wants(instruction.node)) return;
  if (instruction.lane != Lane::compute)
    device_.compute.wait(event_of(instruction.lane, instruction.sequence));
  tap.made(instruction.node, locate_);
}

void Executor::record_collectives(Trace& trace) {
  for (const comm::Record& record : device_.log->stop())
    for (const Bound& bound : bound_) {
      const plan::Instruction& i = *bound.instruction;
      if (i.lane != record.lane || i.lane == Lane::compute) continue;
      // The members of a collective have numbers in a row; the event is the last one's.
      const ir::Node& node = plan_.graph.node(i.node);
      const std::uint64_t last = event_of(i.lane, i.sequence).value;
      const std::size_t operations = operations_of(plan_.graph, node);
      if (record.sequence > last || record.sequence + operations <= last) continue;
      const std::size_t operation = operations - 1 - (last - record.sequence);
      const ir::Value& member = plan_.graph.value(node.outputs[operation % node.outputs.size()]);
      Span span{name_of(node.op), "comm", member.name, record.start_ns, record.end_ns};
      span.bytes = static_cast<std::int64_t>(record.bytes);
      trace.record(i.lane, span);
    }
}

Times Executor::run(Run mode, Trace* trace, Tap* tap) {
  if (trace != nullptr && !trace->on()) trace = nullptr;
  if (trace != nullptr && device_.log != nullptr) device_.log->start();
  const double start = seconds_now();
  const double busy_before = busy(device_);
  waiting_ = 0;
  if (mode != Run::full) tap = nullptr;  // the values are wrong then
  if (tap != nullptr) tap->start(locate_);
  for (const Bound& bound : bound_) {
    if (bound.instruction->lane == Lane::compute) {
      run_kernel(bound, mode, trace);
    } else if (mode == Run::full) {
      start_collective(bound);
    }
    if (tap != nullptr) show(bound, *tap);
  }
  device_.compute.finish();
  if (mode == Run::full)
    for (const Lane lane : communication_lanes)
      if (const auto& events = events_[static_cast<std::size_t>(lane)]; !events.empty())
        comm::sync(events.back());
  Times times;
  times.step = seconds_now() - start;
  times.waiting = waiting_;
  times.comm = busy(device_) - busy_before;
  if (trace != nullptr && device_.log != nullptr) record_collectives(*trace);
  return times;
}

}  // namespace weft::exec
