// The pass interleave: puts a stage's nodes into the order of the pipeline schedule.
#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Phase;
using ir::ValueId;
using pipe::Action;
using pipe::Work;

class InterleavePass {
 public:
  InterleavePass(const ir::Graph& before, const StageOptions& options)
      : before_(before),
        options_(options),
        schedule_(pipe::make_pipeline_schedule(options.kind, options.sizes)),
        timeline_(pipe::simulate(schedule_, {pipe::StageTimes{}})),
        actions_(schedule_.actions[static_cast<std::size_t>(options.rank)]),
        work_of_(actions_.size()),
        early_(actions_.size()) {
    for (std::size_t i = 0; i < actions_.size(); ++i) place_[key(actions_[i])] = i;
  }

  ir::Graph run() {
    find_needed();
    for (std::size_t i = 0; i < before_.nodes().size(); ++i) sort(NodeId(i));
    ir::Graph after = before_.without_nodes();
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      // Two kinds of messages may come from one neighbour: they are asked for as they are sent.
      std::stable_sort(early_[i].begin(), early_[i].end(), [this](NodeId a, NodeId b) {
        return sent_at(before_.node(a)) < sent_at(before_.node(b));
      });
      for (const NodeId message : early_[i]) after.add_node(before_.node(message));
      for (const NodeId node : work_of_[i]) after.add_node(before_.node(node));
    }
    for (const NodeId node : update_) after.add_node(before_.node(node));
    return after;
  }

 private:
  using Key = std::tuple<Work, int, int>;
  static Key key(const Action& a) { return {a.work, a.microbatch, a.chunk}; }

  /// Finds the nodes of the backward that the gradients for the stage before are made from.
  void find_needed() {
    needed_.resize(before_.nodes().size());
    for (std::size_t i = before_.nodes().size(); i-- > 0;) {
      const Node& node = before_.nodes()[i];
      if (node.phase != Phase::backward || (node.op != Op::send && !needed_[i])) continue;
      needed_[i] = true;
      for (const ValueId input : node.inputs)
        if (const NodeId producer = before_.value(input).producer;
            before_.node(producer).phase == Phase::backward)
          needed_[producer.index()] = true;
    }
  }

  void sort(NodeId id) {
    const Node& node = before_.node(id);
    if (node.phase == Phase::update) {
      update_.push_back(id);
      return;
    }
    const std::size_t place = place_of(node, id);
    if (node.op == Op::recv)
      early_[posted_at(node, place)].push_back(id);
    else
      work_of_[place].push_back(id);
  }

  /// The place of the action that the node is a part of.
  std::size_t place_of(const Node& node, NodeId id) const {
    if (node.phase == Phase::forward) return place_.at({Work::forward, node.round, node.chunk});
    if (const auto both = place_.find({Work::backward, node.round, node.chunk}); both != place_.end())
      return both->second;
    return place_.at({needed_[id.index()] ? Work::input_grad : Work::weight_grad, node.round, node.chunk});
  }

  /// The place of the action before which a message is asked for: the last one that begins before the message
  /// is sent, when all actions take as long as each other. So a message never waits for its receiver, and as
  /// little memory as possible waits for messages. Ranks cannot wait for each other in a circle either,
  /// however long actions really take: in that simulated time, whatever waits, waits for something earlier.
  std::size_t posted_at(const Node& message, std::size_t used_at) const {
    const double sent = sent_at(message);
    const auto& spans = timeline_.spans[static_cast<std::size_t>(options_.rank)];
    std::size_t place = used_at;
    while (place > 0 && spans[place].start >= sent) --place;
    return place;
  }
  double sent_at(const Node& message) const {
    const bool forward = message.phase == Phase::forward;
    const StagePlaces places = options_.places();
    const int own_stage = places.stage(options_.rank, message.chunk);
    const int stage = forward ? own_stage - 1 : own_stage + 1;
    const auto sender = static_cast<std::size_t>(places.place(stage));
    const int chunk = places.chunk(stage);
    for (const pipe::Span& span : timeline_.spans[sender]) {
      const Action& a = span.action;
      const bool sends =
          forward ? a.work == Work::forward : a.work == Work::backward || a.work == Work::input_grad;
      if (sends && a.microbatch == message.round && a.chunk == chunk) return span.end;
    }
    throw std::logic_error("no action of the schedule sends what a stage receives");
  }

  const ir::Graph& before_;
  const StageOptions& options_;
  pipe::PipelineSchedule schedule_;
  pipe::PipelineTimes timeline_;
  const std::vector<Action>& actions_;
  std::map<Key, std::size_t> place_;          ///< of each action
  std::vector<std::vector<NodeId>> work_of_;  ///< the nodes of each action
  std::vector<std::vector<NodeId>> early_;    ///< the messages that are asked for before each action
  std::vector<NodeId> update_;
  std::vector<bool> needed_;  ///< by node
};

}  // namespace

ir::Graph interleave(const ir::Graph& graph, const StageOptions& options) {
  return InterleavePass(graph, options).run();
}

}  // namespace weft::passes
