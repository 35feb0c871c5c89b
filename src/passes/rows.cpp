// The pass rows: marks collectives that may leave out an embedding's unused rows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ops/cost.hpp"
#include "passes/collectives.hpp"
#include "passes/passes.hpp"

namespace weft::passes {
namespace {

using ir::Attr;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;
using namespace ir::operand;

class RowsPass {
 public:
  explicit RowsPass(const ir::Graph& before) : before_(before), users_(before.values().size()) {
    for (std::size_t i = 0; i < before.nodes().size(); ++i)
      for (const ValueId input : before.nodes()[i].inputs) users_[input.index()].push_back(NodeId(i));
  }

  ir::Graph run() const {
    ir::Graph after = before_.without_nodes();
    for (Node node : before_.nodes()) {
      if (const std::optional<Table> table = table_of(node)) {
        node.attributes.set(Attr::row, static_cast<double>(table->row_elements));
        node.attributes.set(Attr::used, table->used);
      }
      after.add_node(std::move(node));
    }
    return after;
  }

 private:
  struct Table {
    std::int64_t row_elements;
    double used;  ///< share of its rows that the tokens name
  };

  /// The table that the collective moves, if it could leave rows out.
  std::optional<Table> table_of(const Node& node) const {
    if (!ir::is_collective(node.op) || ops::team_of(node) > 1) return std::nullopt;
    if (is_parameter_gather(node)) return gathered(node);
    if (node.op == Op::reduce_scatter && node.lane == Lane::reduce) return reduced(node);
    return std::nullopt;
  }

  /// The table that is gathered, if all that is read of it are rows for the tokens of its own round.
  std::optional<Table> gathered(const Node& gather) const {
    std::optional<Table> table;
    for (const NodeId user : users_[gather.outputs.front().index()]) {
      const Node& view = before_.node(user);
      if (view.op != Op::view) return std::nullopt;
      for (const NodeId reader : users_[view.out(single::to).index()]) {
        const Node& lookup = before_.node(reader);
        if (lookup.op != Op::embedding || lookup.round != gather.round) return std::nullopt;
        table = table_of(lookup.in(embedding::tokens), view.out(single::to));
      }
    }
    return table;
  }

  /// The table whose gradient is reduced, if that is the gradient of an embedding and of nothing else: then
  /// it is zero in the rows that its round's tokens do not name.
  std::optional<Table> reduced(const Node& reduce) const {
    const Node& join = producer(ir::member_input(reduce, 0));
    if (join.op != Op::join || join.inputs.size() > 1) return std::nullopt;
    const Node& gradient = producer(join.in(single::from));
    if (gradient.op != Op::embedding_grad || gradient.round != reduce.round) return std::nullopt;
    return table_of(gradient.in(embedding_grad::tokens), gradient.out(embedding_grad::dtable));
  }

  /// The table, with the share of its rows that evenly drawn tokens would name. Text names fewer.
  Table table_of(ValueId tokens, ValueId table) const {
    const Shape& shape = before_.value(table).type.shape;
    const double drawn = static_cast<double>(before_.local_elements(tokens));
    // Over a tensor axis, a rank's table has a part of the vocabulary, and tokens are drawn from all of it.
    const double vocab = static_cast<double>(shape[0]) * before_.mesh().size(tensor_axis);
    const double used = 1 - std::pow(1 - 1 / vocab, drawn);
    return {shape[1], std::round(1e4 * used) / 1e4};
  }

  const Node& producer(ValueId id) const { return before_.node(before_.value(id).producer); }

  const ir::Graph& before_;
  std::vector<std::vector<NodeId>> users_;  ///< the nodes that read each value
};

}  // namespace

ir::Graph rows(const ir::Graph& graph) {
  return RowsPass(graph).run();
}

}  // namespace weft::passes
