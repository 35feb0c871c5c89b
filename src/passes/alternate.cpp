// The pass alternate: two microbatches take turns, so that one computes while activations of the other
// travel.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "ops/cost.hpp"
#include "passes/collectives.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::Phase;

/// The forward or the backward of one round: a run of the graph's nodes.
struct Run {
  Phase phase;
  int round;
  std::size_t begin, end;
};

std::vector<Run> runs_of(const ir::Graph& graph) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (runs.empty() || node.phase != runs.back().phase || node.round != runs.back().round)
      runs.push_back({node.phase, node.round, i, i});
    runs.back().end = i + 1;
  }
  return runs;
}

class AlternatePass {
 public:
  AlternatePass(const ir::Graph& before, Turns turns)
      : before_(before), after_(before.without_nodes()), turns_(turns) {}

  ir::Graph run() {
    const std::vector<Run> all = runs_of(before_);
    std::span<const Run> rest = all;
    while (!rest.empty()) {
      if (are_two_rounds(rest)) {
        take_turns(rest[0], rest[2]);
        take_turns(rest[1], rest[3]);
        rest = rest.subspan(4);
      } else {
        emit(rest[0].begin, rest[0].end);
        rest = rest.subspan(1);
      }
    }
    return std::move(after_);
  }

 private:
  /// Whether the list begins with forward and backward of an even round, and those of the next.
  static bool are_two_rounds(std::span<const Run> list) {
    if (list.size() < 4 || list[0].round % 2 != 0) return false;
    const auto is = [&](std::size_t i, Phase phase, int round) {
      return list[i].phase == phase && list[i].round == round;
    };
    const int round = list[0].round;
    return is(0, Phase::forward, round) && is(1, Phase::backward, round) &&
           is(2, Phase::forward, round + 1) && is(3, Phase::backward, round + 1);
  }

  /// Emits both in turns. With half turns the second is one turn behind, so that its short turns come in the
  /// middle of the other's long ones.
  void take_turns(const Run& first, const Run& second) {
    const std::vector<std::size_t> own = ends_of_turns(first), other = ends_of_turns(second);
    const std::size_t behind = turns_ == Turns::half ? 1 : 0;
    for (std::size_t i = 0; i < std::max(own.size(), other.size() + behind); ++i) {
      if (i < own.size()) emit(i == 0 ? first.begin : own[i - 1], own[i]);
      if (i >= behind && i - behind < other.size())
        emit(i == behind ? second.begin : other[i - behind - 1], other[i - behind]);
    }
  }

  /// Where the turns of a run end: behind collectives between activations and, with half turns, in the
  /// middle of what lies between two of them where that is long.
  std::vector<std::size_t> ends_of_turns(const Run& run) const {
    std::vector<std::size_t> ends;
    for (std::size_t i = run.begin; i < run.end; ++i) {
      const bool last = i + 1 == run.end;
      if (last ||
          (is_between_activations(before_.nodes()[i]) && !is_between_activations(before_.nodes()[i + 1])))
        ends.push_back(i + 1);
    }
    return turns_ == Turns::half ? halved(run.begin, ends) : ends;
  }

  std::vector<std::size_t> halved(std::size_t begin, const std::vector<std::size_t>& ends) const {
    std::vector<double> flops;
    for (std::size_t turn = 0, i = begin; turn < ends.size(); ++turn) {
      flops.push_back(0);
      for (; i < ends[turn]; ++i) flops.back() += flops_of(i);
    }
    const double longest = *std::max_element(flops.begin(), flops.end());
    std::vector<std::size_t> halves;
    for (std::size_t turn = 0; turn < ends.size(); ++turn) {
      if (flops[turn] > longest / 4)
        halves.push_back(middle(turn == 0 ? begin : ends[turn - 1], ends[turn], flops[turn]));
      halves.push_back(ends[turn]);
    }
    return halves;
  }

  /// The node of a turn before which about half of its FLOPs are.
  std::size_t middle(std::size_t begin, std::size_t end, double flops) const {
    double so_far = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double own = flops_of(i);
      if (so_far + own / 2 >= flops / 2) return i;
      so_far += own;
    }
    return end;
  }
  double flops_of(std::size_t i) const { return ops::cost(before_, before_.nodes()[i]).flops; }

  void emit(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) after_.add_node(before_.nodes()[i]);
  }

  const ir::Graph& before_;
  ir::Graph after_;
  Turns turns_;
};

}  // namespace

ir::Graph alternate(const ir::Graph& graph, Turns turns) {
  return AlternatePass(graph, turns).run();
}

}  // namespace weft::passes
