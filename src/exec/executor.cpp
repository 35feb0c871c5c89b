#include "exec/executor.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "exec/shapes.hpp"
#include "kernels/region.hpp"
#include "ops/cost.hpp"

namespace weft::exec {
namespace {

/// What a collective is for: "backward head", or for a bucket "forward layers.3.attn..layers.4.ffn".
std::string label_of(const ir::Graph& graph, const ir::Node& node) {
  const auto path = [&](ir::ValueId v) {
    const ir::Value& value = graph.value(v);
    return value.unit.valid() ? graph.unit(value.unit).path : value.name;
  };
  std::string label(name_of(node.phase));
  if (node.op == ir::Op::send) label.append(" ").append(path(ir::moved_value(node)));
  if (!node.outputs.empty()) label.append(" ").append(path(node.outputs.front()));
  if (node.outputs.size() > 1) label.append("..").append(path(node.outputs.back()));
  return label;
}

CaptureMeans means_of(const Device& device) {
  CaptureMeans means;
  means.on_stream = ComputeLane::capturable();
  for (const Lane lane : communication_lanes) {
    const comm::Channel* const channel = device.channels[lane];
    means.channels[lane] = channel != nullptr && channel->capturable();
  }
  return means;
}

/// Says which microbatch a span is of, and which of several stages.
void place_in_step(Span& span, const ir::Graph& graph, const ir::Node& node) {
  if (node.phase == ir::Phase::update) return;
  span.microbatch = node.round;
  if (graph.mesh().size(pipe_axis) > 1) span.chunk = node.chunk;
}

}  // namespace

Executor::Executor(plan::Plan plan, const Device& device, Memory& memory, int rank)
    : plan_(std::move(plan)),
      device_(device),
      memory_(memory),
      rank_(rank),
      capture_(capture_of(plan_, means_of(device), device.capture)) {
  locate_ = [this](ir::ValueId v) { return address(plan_.locations[v.index()]); };
  bind();
}

std::byte* Executor::address(const plan::Location& location) const {
  std::byte* base = nullptr;
  switch (location.memory) {
    case plan::MemoryKind::arena: base = memory_.arena(); break;
    case plan::MemoryKind::common: base = memory_.common(); break;
    case plan::MemoryKind::storage: base = memory_.storage(plan_.graph.storage(location.storage).name); break;
  }
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
      bound.label = label_of(plan_.graph, node);
    }
    events_[instruction.lane].resize(instruction.sequence);
    bound_.push_back(std::move(bound));
  }
}

void Executor::run_kernel(const Bound& bound, Run mode, Trace* trace) {
  const plan::Instruction& instruction = *bound.instruction;
  const ir::Node& node = plan_.graph.node(instruction.node);
  if (mode == Run::full && !instruction.waits.empty()) {
    double before = seconds_now();
    for (const plan::Wait& wait : instruction.waits) {
      device_.compute.wait(event_of(wait.lane, wait.sequence));
      const double now = seconds_now();
      times_.exposed[wait.lane] += now - before;
      before = now;
    }
  }
  Span span;
  if (trace != nullptr) {
    span.name = name_of(node.op);
    span.category = name_of(node.phase);
    span.path = node.module;
    span.phase = span.category;
    place_in_step(span, plan_.graph, node);
    const ops::Cost cost = ops::cost(plan_.graph, node);
    span.bytes = static_cast<std::int64_t>(cost.bytes);
    if (cost.flops > 0) span.flops = static_cast<std::int64_t>(cost.flops);
    span.start_ns = Trace::now_ns();
  }
  {
    const kernels::Region region(node.module.c_str());
    bound.kernel();
  }
  // Reads one word of this thread, which costs nothing.
  check_launches(device_.launch_errors, plan_.graph.name(), &node);
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
  comm::Channel* const channel = device_.channels[instruction.lane];
  channel->set_label(bound.label);
  event_of(instruction.lane, instruction.sequence) = bound.collective(std::span(deps.data(), n));
  channel->set_label({});
}

void Executor::show(const Bound& bound, Tap& tap) {
  const plan::Instruction& instruction = *bound.instruction;
  if (!tap.wants(instruction.node)) return;
  if (instruction.lane != Lane::compute)
    device_.compute.wait(event_of(instruction.lane, instruction.sequence));
  tap.made(instruction.node, locate_);
}

void Executor::record_collectives(Trace& trace) {
  PerLane<std::vector<const plan::Instruction*>> of_lane;
  for (const Bound& bound : bound_) of_lane[bound.instruction->lane].push_back(bound.instruction);
  for (const comm::FinishedCall& record : device_.log->stop()) {
    // The members of a collective have consecutive numbers, and its event is that of the last one.
    const Lane lane = record.lane;
    const auto& events = events_[lane];
    const auto event = std::lower_bound(events.begin(), events.end(), record.sequence,
                                        [](const comm::Event& e, std::uint64_t s) { return e.value < s; });
    if (event == events.end()) continue;
    const plan::Instruction& i = *of_lane[lane][static_cast<std::size_t>(event - events.begin())];
    const ir::Node& node = plan_.graph.node(i.node);
    const std::uint64_t behind = event->value - record.sequence;
    const std::size_t calls = calls_of(plan_.graph, node);
    if (behind >= calls) continue;
    const ir::ValueId moved = ir::is_message(node.op)
                                  ? ir::moved_value(node)
                                  : node.outputs[(calls - 1 - behind) % node.outputs.size()];
    const ir::Value& member = plan_.graph.value(moved);
    Span span{name_of(node.op), "comm", node.module};
    if (member.unit.valid()) span.path = plan_.graph.unit(member.unit).path;
    span.phase = name_of(node.phase);
    span.value = member.name;
    span.start_ns = record.start_ns;
    span.end_ns = record.end_ns;
    span.bytes = static_cast<std::int64_t>(record.bytes);
    span.bucket = static_cast<std::int64_t>(i.sequence);
    place_in_step(span, plan_.graph, node);
    trace.record(lane, span);
  }
}

void Executor::wait_for_the_lanes() {
  double before = seconds_now();
  for (const Lane lane : communication_lanes) {
    const auto& events = events_[lane];
    if (events.empty()) continue;
    comm::sync(events.back());
    const double now = seconds_now();
    times_.exposed[lane] += now - before;
    before = now;
  }
}

/// Adds a channel's counters to the times, with a sign. Channels count from their opening, so a run has what
/// they say after it less what they said before it.
void Executor::add_channel(const comm::Channel* channel, int sign) {
  if (channel == nullptr) return;
  const Lane lane = channel->lane();
  times_.under_way[lane] += sign * channel->busy_seconds();
  times_.sent[lane] += static_cast<std::uint64_t>(sign) * channel->bytes_sent();
}

void Executor::walk(Run mode, Trace* trace, Tap* tap, const std::function<void()>& before_update) {
  bool updates = false;
  for (const Bound& bound : bound_) {
    if (before_update && !updates && plan_.graph.node(bound.instruction->node).op == ir::Op::adamw) {
      before_update();
      updates = true;
    }
    if (bound.instruction->lane == Lane::compute) {
      run_kernel(bound, mode, trace);
    } else if (mode == Run::full) {
      start_collective(bound);
    }
    if (tap != nullptr) show(bound, *tap);
  }
}

/// Captures a run. The streams of the other lanes join the compute lane's capture by waiting for an event at
/// its beginning, and the compute lane waits for the last event of each at its end. What is between is a walk
/// like any other, with the plan's waits as edges.
void Executor::capture_run(Run mode, Replay& replay) {
  std::vector<std::pair<comm::Channel*, comm::Event*>> lanes;  // each with its lane's last event
  for (const Lane lane : communication_lanes)
    if (auto& events = events_[lane]; mode == Run::full && !events.empty())
      lanes.emplace_back(device_.channels[lane], &events.back());
  std::vector<comm::Channel*> capturing;
  device_.compute.begin_capture();
  try {
    const comm::Event fork = device_.compute.mark();
    for (const auto& [channel, last] : lanes) {
      capturing.push_back(channel);
      channel->begin_capture(fork);
    }
    walk(mode, nullptr, nullptr);
    for (const auto& [channel, last] : lanes) device_.compute.wait(*last);
    for (; !capturing.empty(); capturing.pop_back()) replay.calls.push_back(capturing.back()->end_capture());
    replay.graph = device_.compute.end_capture();
  } catch (const std::exception& e) {
    // A communicator may end only after the graphs that hold calls on it.
    for (comm::Channel* channel : capturing) channel->end_capture();
    device_.compute.discard_capture();
    throw Error(exit_code_of(e), fmt::format("the step could not be captured into a CUDA graph ({}); set "
                                             "schedule.cuda_graph = \"off\"",
                                             message_of(e)));
  }
}

Times Executor::run(Run mode, Trace* trace, Tap* tap, const std::function<void()>& before_update) {
  if (trace != nullptr && !trace->on()) trace = nullptr;
  if (trace != nullptr && device_.log != nullptr) device_.log->start();
  const comm::RecordedBlock block(device_.runs, {.kind = "run", .label = plan_.graph.name()});
  const double start = seconds_now();
  times_ = {};
  for (const Lane lane : communication_lanes) add_channel(device_.channels[lane], -1);
  if (mode != Run::full) tap = nullptr;  // in such a run the values are wrong
  if (tap != nullptr) tap->start(locate_);
  // Forgets errors from before this run: a library that asks for a feature which is not there may leave one.
  device_.launch_errors();
  Replay& replay = replays_[static_cast<std::size_t>(mode)];
  const bool replays = capture_ == Capture::captured && replay.warm && trace == nullptr && tap == nullptr;
  if (replays) {
    if (before_update) before_update();
    if (!replay.graph) capture_run(mode, replay);
    replay.graph->launch();
    device_.compute.finish();
    for (const auto& calls : replay.calls) calls->count_run();
  } else {
    walk(mode, trace, tap, before_update);
    device_.compute.finish();
    if (mode == Run::full) wait_for_the_lanes();
    replay.warm = true;
  }
  check_launches(device_.launch_errors, plan_.graph.name(), nullptr);
  times_.step = seconds_now() - start;
  for (const Lane lane : communication_lanes) add_channel(device_.channels[lane], 1);
  if (trace != nullptr && device_.log != nullptr) record_collectives(*trace);
  return times_;
}

void Executor::forget(Run mode) {
  Replay& replay = replays_[static_cast<std::size_t>(mode)];
  replay.graph.reset();  // the calls that it holds end after it
  replay.calls.clear();
}

}  // namespace weft::exec
