#include "ops/cost.hpp"

namespace weft::ops {
namespace {

using ir::Op;
using namespace ir::operand;

double elements(const ir::Graph& graph, ir::ValueId id) {
  return static_cast<double>(graph.local_elements(id));
}

double width(const ir::Graph& graph, ir::ValueId id) {
  return static_cast<double>(graph.value(id).type.shape.back());
}

/// FLOPs of a matmul or of one of its gradients: for each element of `rows`, a multiplication and an addition
/// for each column of `columns`.
double matmul_flops(const ir::Graph& graph, const ir::Node& node) {
  const auto flops = [&](ir::ValueId rows, ir::ValueId columns) {
    return 2.0 * elements(graph, rows) * width(graph, columns);
  };
  switch (node.op) {
    case Op::matmul_dgrad: return flops(node.in(matmul_dgrad::dy), node.out(matmul_dgrad::dx));
    case Op::matmul_wgrad: return flops(node.in(matmul_wgrad::dy), node.in(matmul_wgrad::x));
    case Op::matmul_f8:
    case Op::matmul_dgrad_f8: return flops(node.in(matmul_f8::x8), node.out(matmul_f8::y));
    default: return flops(node.in(matmul::x), node.out(matmul::y));
  }
}

/// FLOPs of the head's products: logits and, with gradients, dh and dw.
double linear_loss_flops(const ir::Graph& graph, const ir::Node& node) {
  const double products = node.op == Op::linear_cross_entropy ? 1.0 : 3.0;
  return products * 2.0 * elements(graph, node.in(linear_cross_entropy::h)) *
         static_cast<double>(graph.value(node.in(linear_cross_entropy::w)).type.shape[0]);
}

double attention_flops(const ir::Graph& graph, const ir::Node& node) {
  const bool forward = node.op == Op::attention;
  const ir::ValueId q = node.in(forward ? attention::q : attention_grad::q),
                    k = node.in(forward ? attention::k : attention_grad::k);
  const double per_query = static_cast<double>(graph.value(k).type.shape[1]) / 2.0;
  // QK and PV; in backward QK, dP, dV, dQ and dK.
  const double products = forward ? 2.0 : 5.0;
  return products * 2.0 * elements(graph, q) * per_query;
}

/// The share of a collective's payload that is sent: rows that tokens name, or everything.
double used_share(const ir::Node& collective) {
  return collective.attributes.has(ir::Attr::used) ? collective.attributes.real(ir::Attr::used) : 1;
}

}  // namespace

Cost cost(const ir::Graph& graph, const ir::Node& node) {
  Cost c;
  if (ir::is_alias(node.op) || node.op == Op::join || summed_in_place(graph, node).valid()) return c;
  for (ir::ValueId v : node.inputs) c.bytes += static_cast<double>(graph.local_bytes(v));
  for (ir::ValueId v : node.outputs) c.bytes += static_cast<double>(graph.local_bytes(v));
  switch (node.op) {
    case Op::matmul:
    case Op::matmul_dgrad:
    case Op::matmul_wgrad:
    case Op::matmul_f8:
    case Op::matmul_dgrad_f8: c.flops = matmul_flops(graph, node); break;
    case Op::linear_cross_entropy:
    case Op::linear_cross_entropy_grad: c.flops = linear_loss_flops(graph, node); break;
    case Op::cross_entropy:  // reads the parts instead of the logits, where there are any
      if (node.has(cross_entropy::parts))
        c.bytes -= static_cast<double>(graph.local_bytes(node.in(cross_entropy::logits)));
      break;
    case Op::quantize:  // reads x for the scale of all, and again
      if (node.attributes.has(ir::Attr::tensorwise))
        c.bytes += static_cast<double>(graph.local_bytes(node.in(quantize::x)));
      break;
    case Op::attention:
    case Op::attention_grad: c.flops = attention_flops(graph, node); break;
    default: break;
  }
  return c;
}

std::int64_t payload_bytes(const ir::Graph& graph, const ir::Node& collective) {
  if (ir::is_message(collective.op)) return graph.local_bytes(ir::moved_value(collective));
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < collective.outputs.size(); ++i)
    bytes += graph.local_bytes(collective.op == Op::all_gather ? collective.outputs[i]
                                                               : ir::member_input(collective, i));
  return bytes;
}

std::int64_t wire_bytes(const ir::Graph& graph, const ir::Node& collective) {
  const std::int64_t ranks = ranks_of(graph, collective), team = team_of(collective);
  const auto payload = static_cast<std::int64_t>(used_share(collective) *
                                                 static_cast<double>(payload_bytes(graph, collective)));
  switch (collective.op) {
    case Op::all_reduce: return payload * (ranks - 1) / ranks * 2;
    case Op::send: return payload;
    case Op::recv: return 0;  // counted where it is sent
    default:
      return gathers_in_common(collective) ? payload * (ranks / team - 1) / ranks
                                           : payload * (ranks - team) / ranks;
  }
}

std::int64_t local_bytes(const ir::Graph& graph, const ir::Node& collective) {
  const std::int64_t ranks = ranks_of(graph, collective), team = team_of(collective);
  if (team == 1) return 0;
  if (gathers_in_common(collective)) return 2 * copied_bytes(graph, collective) / ranks;
  const std::int64_t read = payload_bytes(graph, collective) / ranks * (team - 1);
  return collective.op == Op::all_gather ? 2 * read : read;  // a gather writes what it has read
}

std::int64_t copied_bytes(const ir::Graph& graph, const ir::Node& gather) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < gather.outputs.size(); ++i)
    if (!gathered_in_place(graph, gather, i).valid()) bytes += graph.local_bytes(gather.outputs[i]);
  return bytes;
}

ir::StorageId summed_in_place(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != Op::accumulate || node.has(accumulate::so_far)) return {};
  const ir::ValueId gradient = node.in(accumulate::gradient), sum = node.out(accumulate::sum);
  const ir::StorageId home = graph.value(sum).home;
  const bool is_the_sum = home.valid() && !graph.value(gradient).home.valid() &&
                          graph.alias_root(gradient) == gradient &&
                          graph.value(gradient).type.dtype == graph.value(sum).type.dtype &&
                          graph.local_bytes(gradient) == graph.local_bytes(sum) &&
                          graph.local_bytes(sum) == graph.local_bytes(graph.storage(home));
  return is_the_sum ? home : ir::StorageId{};
}

ir::StorageId gathered_in_place(const ir::Graph& graph, const ir::Node& gather, std::size_t member) {
  if (gather.op != Op::all_gather || team_of(gather) == 1 || team_of(gather) != ranks_of(graph, gather))
    return {};
  const ir::ValueId slice = ir::member_input(gather, member);
  const ir::StorageId home = graph.value(slice).home;
  const bool whole_slice =
      home.valid() && graph.local_bytes(graph.storage(home)) == graph.local_bytes(slice) &&
      graph.local_bytes(gather.outputs[member]) == team_of(gather) * graph.local_bytes(slice);
  return whole_slice ? home : ir::StorageId();
}

int team_of(const ir::Node& collective) {
  const ir::Attributes& attributes = collective.attributes;
  return attributes.has(ir::Attr::team) ? static_cast<int>(attributes.integer(ir::Attr::team)) : 1;
}

bool gathers_in_common(const ir::Node& collective) {
  return collective.op == Op::all_gather &&
         (collective.lane == Lane::gather || collective.lane == Lane::reduce) && team_of(collective) > 1;
}

int ranks_of(const ir::Graph& graph, const ir::Node& collective) {
  if (collective.lane == Lane::copies)
    return static_cast<int>(collective.attributes.integer(ir::Attr::copies));
  return graph.mesh().size(static_cast<int>(collective.attributes.integer(ir::Attr::axis)));
}

int span_of(const ir::Graph& graph, const ir::Node& collective) {
  const int axis = static_cast<int>(collective.attributes.integer(ir::Attr::axis));
  if (ir::is_message(collective.op)) return graph.mesh().stride(axis) + 1;
  if (collective.lane == Lane::copies)
    return graph.mesh().stride(axis) * (ranks_of(graph, collective) - 1) + 1;
  return graph.mesh().span(axis);
}

}  // namespace weft::ops
