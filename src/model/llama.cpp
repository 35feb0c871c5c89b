#include "model/llama.hpp"

#include <fmt/core.h>

#include <utility>

#include "ops/builder.hpp"
#include "ops/storages.hpp"

namespace weft::model {
namespace {

using ir::Attr;
using ir::Op;
using ir::Role;
using ir::ValueId;

/// The parameters of one unit as values, by their place in the unit.
using Views = std::vector<ValueId>;

class Llama {
 public:
  Llama(const Spec& spec, const Batch& batch, ir::Graph& graph)
      : spec_(spec), batch_(batch), graph_(graph), b_(graph) {
    declare_storages();
  }

  /// The logits of one round, from its final hidden state.
  ValueId logits(int round) {
    b_.at(ir::Phase::forward, round);
    const ValueId tokens = b_.state(graph_.find_storage(tokens_name(round)));
    positions_ = b_.state(graph_.find_storage(positions_name(round)));
    if (!rope_.valid()) rope_ = b_.state(graph_.find_storage(rope_name));
    const Views embed = views(0);
    ValueId x = b_.emit_one(Op::embedding, "embed", {tokens, embed[0]}, "embed.out");
    for (std::int64_t layer = 0; layer < spec_.layers; ++layer) {
      x = attention(layer, x);
      x = feed_forward(layer, x);
    }
    const Views head = views(graph_.units().size() - 1);
    const ValueId h = norm("head", x, head[0]);
    return b_.emit_one(Op::matmul, "head", {h, spec_.tie_embeddings ? embed[0] : head[1]}, "head.logits");
  }

  /// The loss of one round, f64[2]: the sum of the losses and the token count.
  ValueId loss(int round) {
    const ValueId scores = logits(round);
    const ValueId targets = b_.state(graph_.find_storage(targets_name(round)));
    return b_.emit(Op::cross_entropy, "loss", {scores, targets},
                   {"loss.lse", "loss.totals"})[ir::operand::cross_entropy::totals.at];
  }

 private:
  void declare_storages() {
    for (std::size_t i = 0; i < graph_.units().size(); ++i)
      graph_.add_storage({ops::storage_name(Role::master, graph_.units()[i]),
                          Role::master,
                          {DType::f32, {graph_.units()[i].elements}},
                          ir::UnitId(i),
                          {}});
    for (int round = 0; round < batch_.rounds; ++round)
      for (const std::string& name : {tokens_name(round), targets_name(round), positions_name(round)})
        graph_.add_storage({name,
                            Role::input,
                            {DType::i32, {batch_.rows * batch_.sections(), batch_.seq / batch_.sections()}},
                            {},
                            {}});
    graph_.add_storage(
        {rope_name, Role::constant, {DType::f32, {batch_.seq, spec_.head_dim() / 2, 2}}, {}, {}});
  }

  Views views(std::size_t unit_index) {
    if (unit_values_.size() <= unit_index) unit_values_.resize(unit_index + 1);
    const Unit unit = graph_.units()[unit_index];
    if (!unit_values_[unit_index].valid())
      unit_values_[unit_index] = b_.state(graph_.find_storage(ops::storage_name(Role::master, unit)));
    Views list;
    for (std::size_t i = 0; i < unit.parameters.size(); ++i)
      list.push_back(b_.view(unit_values_[unit_index], i, unit.parameters[i].path + b_.suffix()));
    return list;
  }

  ValueId norm(const std::string& module, ValueId x, ValueId weight) {
    return b_.emit(Op::rms_norm, module, {x, weight}, {module + ".h", module + ".rstd"},
                   {{Attr::eps, spec_.norm_eps}})[ir::operand::rms_norm::y.at];
  }
  ValueId linear(const std::string& module, const char* name, ValueId x, ValueId weight) {
    return b_.emit_one(Op::matmul, module, {x, weight}, module + "." + name);
  }
  /// A product by a weight that is stored [in, out]. The weights whose results are added to the residual are
  /// stored so: what a rank of a tensor axis has of them, some of the inputs, is then a run of elements, as
  /// it is of the others.
  ValueId linear_in_first(const std::string& module, const char* name, ValueId x, ValueId weight) {
    return b_.emit_one(Op::matmul_dgrad, module, {x, weight}, module + "." + name);
  }
  ValueId rope(const std::string& module, const char* name, ValueId x) {
    return b_.emit_one(Op::rope, module, {x, positions_, rope_}, module + "." + name,
                       {{Attr::head_dim, double(spec_.head_dim())}});
  }

  ValueId attention(std::int64_t layer, ValueId x) {
    const std::string m = fmt::format("layers.{}.attn", layer);
    const Views w = views(static_cast<std::size_t>(1 + 2 * layer));  // norm, wq, wk, wv, wo
    const ValueId h = norm(m, x, w[0]);
    const ValueId q = rope(m, "q_rope", linear(m, "q", h, w[1]));
    const ValueId k = rope(m, "k_rope", linear(m, "k", h, w[2]));
    const ValueId v = linear(m, "v", h, w[3]);
    std::vector<ValueId> operands{q, k, v};
    if (spec_.document_mask) operands.push_back(positions_);
    ir::Attributes attributes{{Attr::heads, double(spec_.heads)}, {Attr::kv_heads, double(spec_.kv_heads)}};
    if (!spec_.deterministic) attributes.set(Attr::any_order, 1);
    const ValueId o =
        b_.emit(Op::attention, m, operands, {m + ".o", m + ".lse"}, attributes)[ir::operand::attention::o.at];
    return b_.emit_one(Op::add, m, {x, linear_in_first(m, "proj", o, w[4])}, m + ".out");
  }

  ValueId feed_forward(std::int64_t layer, ValueId x) {
    const std::string m = fmt::format("layers.{}.ffn", layer);
    const Views w = views(static_cast<std::size_t>(2 + 2 * layer));  // norm, w1, w3, w2
    const ValueId h = norm(m, x, w[0]);
    const ValueId gate = linear(m, "gate", h, w[1]);
    const ValueId up = linear(m, "up", h, w[2]);
    const ValueId a = b_.emit_one(Op::swiglu, m, {gate, up}, m + ".act");
    return b_.emit_one(Op::add, m, {x, linear_in_first(m, "down", a, w[3])}, m + ".out");
  }

  const Spec& spec_;
  const Batch& batch_;
  ir::Graph& graph_;
  ops::Builder b_;
  std::vector<ValueId> unit_values_;
  ValueId positions_, rope_;
};

}  // namespace

std::string tokens_name(int round) {
  return fmt::format("tokens.{}", round);
}
std::string targets_name(int round) {
  return fmt::format("targets.{}", round);
}
std::string positions_name(int round) {
  return fmt::format("positions.{}", round);
}

Forward build_loss(const Spec& spec, const Batch& batch, const Mesh& mesh, const std::string& name) {
  Forward forward{ir::Graph(name, mesh, units(spec)), {}};
  Llama llama(spec, batch, forward.graph);
  for (int round = 0; round < batch.rounds; ++round) forward.totals.push_back(llama.loss(round));
  return forward;
}

ir::Graph build_evaluation(const Spec& spec, const Batch& batch, const Mesh& mesh) {
  Forward forward = build_loss(spec, batch, mesh, "evaluate");
  ir::Graph& graph = forward.graph;
  ops::Builder b(graph);
  for (int round = 0; round < batch.rounds; ++round) {
    b.at(ir::Phase::update, round);
    const ir::StorageId home =
        graph.add_storage({ops::totals_name_of(round), Role::report, {DType::f64, {2}}, {}, {}});
    const ValueId of_round = forward.totals[static_cast<std::size_t>(round)];
    graph.value(b.emit_one(Op::reduce_totals, "loss", {of_round}, "loss.sum")).home = home;
  }
  return std::move(forward.graph);
}

ir::Graph build_logits(const Spec& spec, const Batch& batch, const Mesh& mesh) {
  ir::Graph graph("logits", mesh, units(spec));
  const ValueId logits = Llama(spec, batch, graph).logits(0);
  const ir::StorageId home = graph.add_storage({logits_name, Role::report, graph.value(logits).type, {}, {}});
  graph.value(logits).home = home;
  return graph;
}

}  // namespace weft::model
