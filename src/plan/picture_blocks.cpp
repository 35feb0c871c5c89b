#include "plan/picture_blocks.hpp"

#include <algorithm>

#include "ops/cost.hpp"
#include "plan/offsets.hpp"

namespace weft::plan {
namespace {

/// Adds block `b`, which follows `a`, to `a`.
void join(Block& a, const Block& b) {
  if (b.longest > a.longest) {
    a.longest = b.longest;
    a.phase = b.phase;
  }
  a.end = b.end;
  a.last = b.last;
  a.instructions += b.instructions;
  a.bytes += b.bytes;
}

bool alike(const Block& a, const Block& b) {
  return a.last == b.first && a.phase == b.phase && a.round == b.round;
}

/// The lane for which `instruction` waits longest.
Lane waited_for(const Instruction& instruction, const machine::LaneTimes& times) {
  Lane lane = Lane::gather;
  double latest = -1;
  for (const Wait& wait : instruction.waits) {
    const double end = times.spans[wait.lane][wait.sequence - 1].end;
    if (end <= latest) continue;
    latest = end;
    lane = wait.lane;
  }
  return lane;
}

/// The communication lane on which the step ends.
Lane last_lane(const machine::LaneTimes& times) {
  const auto ends = [&](Lane lane) {
    const auto& spans = times.spans[lane];
    return !spans.empty() && spans.back().end >= times.end;
  };
  const auto last = std::find_if(communication_lanes.rbegin(), communication_lanes.rend(), ends);
  return last == communication_lanes.rend() ? Lane::gather : *last;
}

}  // namespace

std::vector<Block> blocks_of(const Plan& plan, const machine::LaneTimes& times, Lane lane, double shortest) {
  std::vector<Block> blocks;
  for (const Instruction& i : plan.instructions) {
    if (i.lane != lane) continue;
    const ir::Node& node = plan.graph.node(i.node);
    const auto& span = times.spans[lane][i.sequence - 1];
    Block block{span.start, span.end, node.phase, node.round, node.module, node.module, name_of(node.op), 1};
    block.longest = span.end - span.start;
    if (lane != Lane::compute) block.bytes = ops::wire_bytes(plan.graph, node);
    const bool touches = !blocks.empty() && block.start - blocks.back().end <= 0.1 * shortest;
    if (!blocks.empty() && ((lane == Lane::compute && touches && alike(blocks.back(), block)) ||
                            block.end - blocks.back().start < shortest)) {
      join(blocks.back(), block);
    } else {
      blocks.push_back(block);
    }
  }
  return blocks;
}

std::vector<Stretch> waiting_of(const Plan& plan, const machine::LaneTimes& times, double shortest) {
  std::vector<Stretch> all;
  double done = 0;
  const auto add = [&](double start, Lane lane) {
    if (start <= done) return;
    if (!all.empty() && start - all.back().start < shortest) {
      all.back().end = start;
      all.back().waited += start - done;
      all.back().lane = lane;
    } else {
      all.push_back({done, start, start - done, lane});
    }
  };
  for (const Instruction& i : plan.instructions) {
    if (i.lane != Lane::compute) continue;
    const auto& span = times.spans[Lane::compute][i.sequence - 1];
    add(span.start, waited_for(i, times));
    done = span.end;
  }
  add(times.end, last_lane(times));
  std::erase_if(all, [](const Stretch& s) { return s.waited < 0.5 * (s.end - s.start); });
  return all;
}

std::vector<double> times_of_places(const Plan& plan, const machine::LaneTimes& times) {
  std::vector<double> when(plan.graph.nodes().size() + 1, -1);
  when.back() = times.end;
  for (const Instruction& i : plan.instructions)
    if (i.lane == Lane::compute) when[i.node.index()] = times.spans[Lane::compute][i.sequence - 1].start;
  for (std::size_t place = when.size() - 1; place-- > 0;)
    if (when[place] < 0) when[place] = when[place + 1];
  return when;
}

std::vector<std::int64_t> live_bytes_over_time(const Plan& plan, const machine::LaneTimes& times,
                                               std::size_t columns) {
  const std::size_t places = plan.graph.nodes().size();
  const std::vector<std::int64_t> live = live_by_place(plan.buffers, places);
  const std::vector<double> when = times_of_places(plan, times);
  const auto column = [&](double t) {
    const double share = times.end > 0 ? t / times.end : 0;
    return std::min(columns - 1, static_cast<std::size_t>(share * static_cast<double>(columns)));
  };
  std::vector<std::int64_t> most(columns, 0);
  for (std::size_t place = 0; place < places; ++place)
    for (std::size_t c = column(when[place]); c <= column(when[place + 1]); ++c)
      most[c] = std::max(most[c], live[place]);
  return most;
}

}  // namespace weft::plan
