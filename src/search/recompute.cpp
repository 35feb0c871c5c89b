#include "search/recompute.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

namespace weft::search {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

/// A module of one layer: its forward nodes, and which of their results backward reads.
struct Module {
  std::vector<NodeId> nodes;
  std::vector<ValueId> read;  ///< results that backward reads
};

struct Trade {
  std::vector<Op> ops;
  double seconds = 0;
  std::int64_t kept = 0;  ///< bytes that are kept
};

class Trades {
 public:
  Trades(const ir::Graph& graph, const machine::CostModel& costs, const Module& module)
      : graph_(graph), costs_(costs), module_(module) {}

  /// Operations whose results backward reads, or from which other such results are made.
  std::vector<Op> candidates() const {
    std::set<Op> ops;
    for (const NodeId id : module_.nodes) {
      const Op op = graph_.node(id).op;
      if (ir::communicates(op) && op != Op::all_gather) continue;  // only a gather can be done again
      if (op != Op::add && op != Op::cross_entropy && op != Op::linear_cross_entropy) ops.insert(op);
    }
    return {ops.begin(), ops.end()};
  }

  /// The trades from keeping everything to keeping least, along the lower hull.
  std::vector<Trade> hull() const {
    std::vector<Trade> all;
    const std::vector<Op> ops = candidates();
    for (unsigned subset = 0; subset < 1U << ops.size(); ++subset) {
      Trade trade;
      for (std::size_t i = 0; i < ops.size(); ++i)
        if ((subset >> i & 1U) != 0) trade.ops.push_back(ops[i]);
      measure(trade);
      all.push_back(std::move(trade));
    }
    return lower_hull(std::move(all));
  }

 private:
  void measure(Trade& trade) const {
    std::set<NodeId> again;
    std::set<ValueId> kept;
    for (const ValueId value : module_.read) need(value, trade.ops, again, kept);
    for (const NodeId id : again)
      trade.seconds += ir::communicates(graph_.node(id).op) ? gather_seconds(graph_.node(id))
                                                            : costs_.kernel_seconds(graph_, graph_.node(id));
    for (const ValueId value : kept) trade.kept += graph_.local_bytes(value);
  }

  /// The seconds of gathering activations again. The pass share, which tells the gathers that need no
  /// message, comes later.
  double gather_seconds(Node gather) const {
    const Teams& teams = graph_.mesh().teams();
    const int team = gather.lane == Lane::tensor ? teams.tensor : teams.context;
    if (team > 1) gather.attributes.set(ir::Attr::team, team);
    return costs_.collective_seconds(graph_, gather);
  }

  void need(ValueId value, const std::vector<Op>& ops, std::set<NodeId>& again,
            std::set<ValueId>& kept) const {
    const NodeId producer = graph_.value(value).producer;
    if (std::find(module_.nodes.begin(), module_.nodes.end(), producer) == module_.nodes.end()) return;
    if (std::find(ops.begin(), ops.end(), graph_.node(producer).op) == ops.end()) {
      kept.insert(value);
    } else if (again.insert(producer).second) {
      for (const ValueId input : graph_.node(producer).inputs) need(input, ops, again, kept);
    }
  }

  static std::vector<Trade> lower_hull(std::vector<Trade> all) {
    std::stable_sort(all.begin(), all.end(), [](const Trade& a, const Trade& b) {
      return std::tuple(-a.kept, a.seconds, a.ops.size()) < std::tuple(-b.kept, b.seconds, b.ops.size());
    });
    std::vector<Trade> hull{all.front()};
    while (true) {  // takes the steepest way down from here
      const Trade& here = hull.back();
      const Trade* best = nullptr;
      double least = 0;
      for (const Trade& t : all) {
        if (t.kept >= here.kept) continue;
        const double slope = (t.seconds - here.seconds) / static_cast<double>(here.kept - t.kept);
        if (best == nullptr || slope < least) {
          best = &t;
          least = slope;
        }
      }
      if (best == nullptr) return hull;
      hull.push_back(*best);
    }
  }

  const ir::Graph& graph_;
  const machine::CostModel& costs_;
  const Module& module_;
};

/// The modules of all layers in the first round, by module path.
std::map<std::string, Module> modules_of(const ir::Graph& graph) {
  std::map<std::string, Module> modules;
  std::set<ValueId> seen;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.round != 0 || ir::is_alias(node.op)) continue;
    if (node.phase == ir::Phase::forward && node.module.starts_with("layers."))
      modules[node.module].nodes.emplace_back(i);
    if (node.phase != ir::Phase::backward) continue;
    for (const ValueId input : node.inputs) {
      const Node& producer = graph.node(graph.value(input).producer);
      if (producer.phase != ir::Phase::forward || !modules.contains(producer.module)) continue;
      if (seen.insert(input).second) modules[producer.module].read.push_back(input);
    }
  }
  return modules;
}

/// The path of a layer's module: before, at and behind the layer's number.
struct Path {
  std::string head;
  int layer = 0;
  std::string tail;
};

Path parts_of(const std::string& path) {
  const std::size_t first = path.find('.') + 1, end = std::min(path.find('.', first), path.size());
  return {path.substr(0, first), std::stoi(path.substr(first, end - first)), path.substr(end)};
}

/// Rising numbers as patterns of module paths: of 0, 1, 2 and 5 "0-2" and "5-5".
std::vector<std::string> ranges(std::span<const int> numbers) {
  std::vector<std::string> list;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    list.push_back(fmt::format("{}-{}", numbers[begin], numbers[end - 1]));
  }
  return list;
}

}  // namespace

RecomputeLevels::RecomputeLevels(const ir::Graph& graph, const machine::CostModel& costs) {
  std::map<std::tuple<std::string, std::string, std::vector<Op>>, std::size_t> kind_of;
  std::vector<std::vector<Trade>> hulls;
  for (const auto& [path, module] : modules_of(graph)) {
    const auto [head, layer, tail] = parts_of(path);
    const Trades trades(graph, costs, module);
    const auto [known, is_new] = kind_of.emplace(std::tuple(head, tail, trades.candidates()), kinds_.size());
    if (is_new) {
      hulls.push_back(trades.hull());
      kinds_.push_back({head, tail, {}, {}});
      for (const Trade& t : hulls.back()) kinds_.back().sets.push_back(t.ops);
    }
    kinds_[known->second].layers.push_back(layer);
  }
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    std::vector<int>& layers = kinds_[kind].layers;
    std::sort(layers.begin(), layers.end());
    const std::vector<Trade>& hull = hulls[kind];
    for (std::size_t set = 1; set < hull.size(); ++set) {
      const double seconds_per_byte = (hull[set].seconds - hull[set - 1].seconds) /
                                      static_cast<double>(hull[set - 1].kept - hull[set].kept);
      for (std::size_t place = 0; place < layers.size(); ++place)
        steps_.push_back({kind, set, place, seconds_per_byte});
    }
  }
  std::stable_sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
    return std::tuple(a.seconds_per_byte, a.kind, a.set, a.place) <
           std::tuple(b.seconds_per_byte, b.kind, b.set, b.place);
  });
}

passes::RecomputeOptions RecomputeLevels::at(int level) const {
  // In each kind, reached[set] is the number of layers, from its first on, that have come to that set or
  // beyond it.
  std::vector<std::map<std::size_t, std::size_t>> reached(kinds_.size());
  for (int i = 0; i < level; ++i) {
    const Step& step = steps_[static_cast<std::size_t>(i)];
    std::size_t& count = reached[step.kind][step.set];
    count = std::max(count, step.place + 1);
  }
  passes::RecomputeOptions options;
  if (level > 0) options.what = Recompute::selective;
  options.whole_model = false;  // the deck has none of these rules, so no message may blame it for one
  for (std::size_t k = 0; k < kinds_.size(); ++k)
    for (const auto& [set, count] : reached[k]) {
      const auto next = reached[k].find(set + 1);
      const std::size_t first = next == reached[k].end() ? 0 : next->second;
      if (first >= count) continue;
      for (const std::string& range : ranges(std::span(kinds_[k].layers).subspan(first, count - first)))
        for (const Op op : kinds_[k].sets[set])
          options.rules.push_back({op, kinds_[k].head + range + kinds_[k].tail});
    }
  return options;
}

}  // namespace weft::search
