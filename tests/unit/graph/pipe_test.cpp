// Tests stages of a pipe as graphs and plans: nothing is lost or done twice, and no ranks wait for each other
// in a circle.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/per_lane.hpp"
#include "needed_waits.hpp"
#include "plan/plan.hpp"
#include "small_model.hpp"

namespace weft {
namespace {

using ir::Node;
using ir::Op;
using ir::Phase;
using test::SmallModel;

/// A pipe of the small model: which kind of schedule, how many ranks, chunks and microbatches; and how many
/// ranks the axes beside it have.
struct Case {
  PipelineKind kind;
  int ranks, chunks, microbatches;
  int data = 1, tensor = 1;
};
std::string name_of(const Case& c) {
  return fmt::format("{}, {} ranks, {} chunks, {} microbatches, data {}, tensor {}", name_of(c.kind), c.ranks,
                     c.chunks, c.microbatches, c.data, c.tensor);
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::interleaved,
                                  PipelineKind::zb_h1, PipelineKind::zbv})
    for (const int ranks : {2, 3, 4})
      for (const int chunks : {1, 2})
        for (const int microbatches : {1, 2, 4, 5, 7, 8})
          if (serves_chunks(kind, chunks)) list.push_back({kind, ranks, chunks, microbatches});
  return list;
}

/// Some of them with fsdp and a tensor axis beside the pipe: fewer microbatches than ranks, and more.
std::vector<Case> cases_beside_other_axes() {
  std::vector<Case> list;
  for (Case c : cases()) {
    if (c.microbatches != 2 && c.microbatches != 5) continue;
    c.data = c.tensor = 2;
    list.push_back(c);
  }
  return list;
}

/// Six layers, which are dealt out as evenly as they can be, the embedding and the head counted as one each.
SmallModel model_of(const Case& c, int place) {
  SmallModel model;
  model.spec.layers = 6;
  model.ranks = c.data;
  model.tensor = c.tensor;
  model.options.partition = c.tensor > 1;
  model.pipe = c.ranks;
  model.rounds = c.microbatches;
  model.batch = 1;
  passes::StageOptions stage{c.kind, {c.ranks, c.chunks, c.microbatches}, place, {}, {}};
  const int stages = c.ranks * c.chunks;
  for (int s = 0; s < stages; ++s)
    stage.first_units.push_back(
        s == 0 ? 0 : model::first_unit_of_layer(static_cast<std::size_t>(8 * s / stages - 1)));
  model.options.stage = stage;
  return model;
}

/// The plans of the places on the pipe, which several tests share. All ranks of a place have the same.
const std::vector<plan::Plan>& plans_of(const Case& c) {
  static std::map<std::string, std::vector<plan::Plan>> made;
  std::vector<plan::Plan>& plans = made[name_of(c)];
  if (!plans.empty()) return plans;
  for (int place = 0; place < c.ranks; ++place)
    plans.push_back(plan::lower(model_of(c, place).step(), test::test_scratch));
  return plans;
}

/// What a node computes, by phase, round, operation and the first of its values.
std::map<std::string, int> work_of(const ir::Graph& graph) {
  std::map<std::string, int> work;
  for (const Node& node : graph.nodes())
    if (!ir::is_alias(node.op) && !ir::communicates(node.op) && node.phase != Phase::update)
      ++work[fmt::format("{} {} r{} {}", name_of(node.phase), name_of(node.op), node.round,
                         graph.value(node.outputs.front()).name)];
  return work;
}

TEST(Stages, DoTheWorkOfOneRankTogether) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name_of(c));
    SmallModel whole = model_of(c, 0);
    whole.pipe = 1;
    whole.options.stage.reset();
    // At a border an add and the norm behind it are two.
    whole.options.disable = {"residual"};
    std::map<std::string, int> together;
    std::size_t units = 0, elements = 0;
    for (int place = 0; place < c.ranks; ++place) {
      SmallModel own = model_of(c, place);
      own.options.disable = {"residual"};
      const ir::Graph step = own.step();
      for (const auto& [what, times] : work_of(step)) together[what] += times;
      units += step.units().size();
      for (const Unit& unit : step.units()) elements += static_cast<std::size_t>(unit.elements);
    }
    EXPECT_EQ(together, work_of(whole.step()));
    const std::vector<Unit> all = model::units(whole.spec);
    EXPECT_EQ(units, all.size());
    for (const Unit& unit : all) elements -= static_cast<std::size_t>(unit.elements);
    EXPECT_EQ(elements, 0u);
  }
}

/// The values that a plan moves on a lane, in order, with the place at the other end.
std::vector<std::pair<std::string, int>> moved(const plan::Plan& plan, Lane lane) {
  std::vector<std::pair<std::string, int>> list;
  for (const plan::Instruction& i : plan.instructions) {
    if (i.lane != lane) continue;
    const Node& node = plan.graph.node(i.node);
    list.emplace_back(plan.graph.value(ir::moved_value(node)).name,
                      static_cast<int>(node.attributes.integer(ir::Attr::peer)));
  }
  return list;
}

TEST(Stages, ReceiveWhatTheirNeighboursSendInTheSameOrder) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name_of(c));
    const std::vector<plan::Plan>& plans = plans_of(c);
    for (int place = 0; place < c.ranks; ++place) {
      const int next = (place + 1) % c.ranks;
      const auto& here = plans[static_cast<std::size_t>(place)];
      const auto& there = plans[static_cast<std::size_t>(next)];
      const auto names = [](std::vector<std::pair<std::string, int>> list, int peer) {
        std::vector<std::string> result;
        for (auto& [name, other] : list) {
          EXPECT_EQ(other, peer);
          result.push_back(std::move(name));
        }
        return result;
      };
      EXPECT_EQ(names(moved(here, Lane::to_next), next), names(moved(there, Lane::from_previous), place));
      EXPECT_EQ(names(moved(here, Lane::from_next), next), names(moved(there, Lane::to_previous), place));
    }
    std::size_t messages = 0;
    for (const plan::Plan& plan : plans)
      for (const Lane lane : {Lane::to_next, Lane::to_previous}) messages += moved(plan, lane).size();
    const int borders = c.ranks * c.chunks - 1 - (folds(c.kind) ? 1 : 0);
    EXPECT_EQ(messages, static_cast<std::size_t>(2 * borders * c.microbatches));
  }
}

TEST(Stages, HavePlansThatAreProved) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name_of(c));
    for (const plan::Plan& plan : plans_of(c)) EXPECT_NO_THROW(plan::verify(plan));
  }
}

/// One case of each schedule, because each wait is a proof of its own.
TEST(Stages, NeedEveryWait) {
  std::set<PipelineKind> seen;
  for (const Case& c : cases()) {
    if (c.ranks != 3 || c.microbatches != 4 || !seen.insert(c.kind).second) continue;
    SCOPED_TRACE(name_of(c));
    int messages = 0;
    for (const plan::Plan& plan : plans_of(c)) {
      const PerLane<int> waits = test::expect_every_wait_is_needed(plan);
      messages += waits[Lane::from_previous] + waits[Lane::from_next];
    }
    EXPECT_GT(messages, 0);
  }
  EXPECT_GE(seen.size(), 3U);
}

/// Runs the plans of all ranks as their executors do, without times: a host's thread takes the instructions
/// in order, computes when what a kernel waits for is done, and hands the others over to their lanes. A
/// message or collective ends once all its ends have begun it, so nothing is ever buffered. Says whether all
/// ranks come to their end.
class Execution {
 public:
  /// Takes the plans of the places on the pipe, which must live longer. All ranks of a place run the same.
  explicit Execution(const std::vector<plan::Plan>& plans)
      : plans_(plans), mesh_(plans.front().graph.mesh()), ranks_(static_cast<std::size_t>(mesh_.world())) {}

  bool ends() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        moved = host(rank) || moved;
        for (const Lane lane : communication_lanes) moved = finish(rank, lane) || moved;
      }
    }
    return std::all_of(ranks_.begin(), ranks_.end(), [this](const Rank& rank) {
      return rank.next == instructions_of(static_cast<std::size_t>(&rank - ranks_.data())).size();
    });
  }

 private:
  struct Rank {
    std::size_t next = 0;  ///< the host's next instruction
    PerLane<std::vector<const plan::Instruction*>> handed;
    PerLane<std::uint64_t> done{};
  };

  int place_of(std::size_t rank) const { return mesh_.pipe_rank(static_cast<int>(rank)); }
  const std::vector<plan::Instruction>& instructions_of(std::size_t rank) const {
    return plans_[static_cast<std::size_t>(place_of(rank))].instructions;
  }
  /// The ranks of this one's group of an axis.
  std::vector<int> group(std::size_t rank, std::string_view axis) const {
    return mesh_.group(static_cast<int>(rank), mesh_.axis(axis));
  }

  bool ready(const Rank& rank, const plan::Instruction& i) const {
    return std::all_of(i.waits.begin(), i.waits.end(),
                       [&](const plan::Wait& w) { return rank.done[w.lane] >= w.sequence; });
  }

  bool host(std::size_t r) {
    Rank& rank = ranks_[r];
    const auto& instructions = instructions_of(r);
    bool moved = false;
    for (; rank.next < instructions.size(); ++rank.next, moved = true) {
      const plan::Instruction& i = instructions[rank.next];
      if (i.lane != Lane::compute)
        rank.handed[i.lane].push_back(&i);
      else if (ready(rank, i))
        ++rank.done[Lane::compute];
      else
        break;
    }
    return moved;
  }

  /// Whether the lane's next instruction has begun: the one behind the last that is done.
  bool begun(std::size_t r, Lane lane, std::uint64_t sequence) const {
    const Rank& rank = ranks_[r];
    return rank.done[lane] >= sequence ||
           (rank.done[lane] + 1 == sequence && rank.handed[lane].size() >= sequence &&
            ready(rank, *rank.handed[lane][sequence - 1]));
  }

  bool finish(std::size_t r, Lane lane) {
    Rank& rank = ranks_[r];
    const std::uint64_t sequence = rank.done[lane] + 1;
    if (!begun(r, lane, sequence)) return false;
    const auto at_peer = [&](int peer, Lane there) {
      return begun(static_cast<std::size_t>(peer), there, sequence);
    };
    const std::vector<int> stages = group(r, pipe_axis);
    const std::size_t n = stages.size(), place = static_cast<std::size_t>(place_of(r));
    const int next = stages[(place + 1) % n], previous = stages[(place + n - 1) % n];
    bool all = true;
    switch (lane) {
      case Lane::to_next: all = at_peer(next, Lane::from_previous); break;
      case Lane::from_previous: all = at_peer(previous, Lane::to_next); break;
      case Lane::to_previous: all = at_peer(previous, Lane::from_next); break;
      case Lane::from_next: all = at_peer(next, Lane::to_previous); break;
      default:
        for (const int peer : group(r, axis_of(lane))) all = all && at_peer(peer, lane);
    }
    if (all) rank.done[lane] = sequence;
    return all;
  }

  const std::vector<plan::Plan>& plans_;
  const Mesh& mesh_;
  std::vector<Rank> ranks_;
};

TEST(Stages, NeverWaitForEachOtherInACircle) {
  for (const Case& c : cases()) EXPECT_TRUE(Execution(plans_of(c)).ends()) << name_of(c);
}

/// Parameters are gathered, gradients reduced and activations exchanged between the messages, in memory that
/// all of these share.
TEST(Stages, NeverWaitForEachOtherInACircleBesideOtherAxes) {
  for (const Case& c : cases_beside_other_axes()) {
    SCOPED_TRACE(name_of(c));
    std::set<Lane> lanes;
    for (const plan::Plan& plan : plans_of(c))
      for (const plan::Instruction& i : plan.instructions) lanes.insert(i.lane);
    for (const Lane lane : {Lane::gather, Lane::reduce, Lane::tensor, Lane::from_next})
      EXPECT_TRUE(lanes.contains(lane)) << name_of(lane);
    EXPECT_TRUE(Execution(plans_of(c)).ends());
  }
}

/// The tests above would see a circle.
TEST(Stages, ACircleIsSeen) {
  for (const int beside : {1, 2}) {
    std::vector<plan::Plan> plans = plans_of({PipelineKind::one_f_one_b, 2, 1, 4, beside, beside});
    std::vector<plan::Instruction>& first = plans[0].instructions;
    const auto receives = std::find_if(first.begin(), first.end(),
                                       [](const plan::Instruction& i) { return i.lane == Lane::from_next; });
    const auto sends = std::find_if(first.begin(), first.end(),
                                    [](const plan::Instruction& i) { return i.lane == Lane::to_next; });
    sends->waits.push_back({Lane::from_next, receives->sequence});
    EXPECT_FALSE(Execution(plans).ends()) << beside;
  }
}

/// A stage's weight gradients that nothing waits for stand behind the gradient for the stage before.
TEST(Stages, MakeWeightGradientsLateWhereTheScheduleSaysSo) {
  const auto wgrads_before_send = [](PipelineKind kind) {
    const plan::Plan plan = plans_of({kind, 4, 1, 8})[2];
    int wgrads = 0;
    for (const plan::Instruction& i : plan.instructions) {
      const Node& node = plan.graph.node(i.node);
      if (node.op == Op::matmul_wgrad) ++wgrads;
      if (node.op == Op::send && node.phase == Phase::backward) return wgrads;
    }
    return -1;
  };
  EXPECT_GT(wgrads_before_send(PipelineKind::one_f_one_b), 0);
  EXPECT_EQ(wgrads_before_send(PipelineKind::zb_h1), 0);
}

}  // namespace
}  // namespace weft
