// Makes the shapes that the kernels take from a node's values.
#pragma once

#include "comm/channel.hpp"
#include "ir/graph.hpp"
#include "kernels/attention.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/sections.hpp"
#include "kernels/swiglu.hpp"

namespace weft::exec {

inline DType dtype_of(const ir::Graph& graph, ir::ValueId v) {
  return graph.value(v).type.dtype;
}

/// How many ranks share each sequence that the node reads.
inline int context_ranks(const ir::Graph& graph, const ir::Node& node) {
  return node.attributes.has(ir::Attr::axis)
             ? graph.mesh().size(static_cast<int>(node.attributes.integer(ir::Attr::axis)))
             : 1;
}

/// The shape of attention and its gradient.
inline kernels::AttentionShape attention_shape(const ir::Graph& graph, const ir::Node& node,
                                               int context_rank) {
  using namespace ir::operand;
  const bool forward = node.op == ir::Op::attention;
  const Shape k = graph.local_shape(node.in(forward ? attention::k : attention_grad::k));
  const std::int64_t kv_heads = node.attributes.integer(ir::Attr::kv_heads);
  const int ranks = context_ranks(graph, node);
  return {k[0],
          k[1],
          node.attributes.integer(ir::Attr::heads),
          kv_heads,
          k[2] / kv_heads,
          ranks,
          ranks > 1 ? context_rank : 0,
          !node.attributes.has(ir::Attr::any_order)};
}

/// The shape of merge_sections and split_sections.
inline kernels::SectionShape section_shape(const ir::Graph& graph, const ir::Node& node) {
  using namespace ir::operand;
  const bool merges = node.op == ir::Op::merge_sections;
  const Shape s = graph.local_shape(merges ? node.out(single::to) : node.in(single::from));
  return {s[0], s[1], s[2], context_ranks(graph, node)};
}

inline kernels::RowShape row_shape(const ir::Graph& graph, ir::ValueId x) {
  const std::int64_t dim = graph.value(x).type.shape.back();
  return {graph.local_elements(x) / dim, dim};
}

/// The first token of a rank's part of the vocabulary, which is cut where the node names an axis.
inline std::int64_t first_token(const ir::Node& node, std::int64_t vocab, int tensor_rank) {
  return node.attributes.has(ir::Attr::axis) ? vocab * tensor_rank : 0;
}

inline kernels::EmbeddingShape embedding_shape(const ir::Graph& graph, const ir::Node& node,
                                               int tensor_rank) {
  using namespace ir::operand;
  const Shape& table = graph.value(node.in(embedding::table)).type.shape;
  return {graph.local_elements(node.in(embedding::tokens)), table[0], table[1],
          first_token(node, table[0], tensor_rank)};
}

inline kernels::EmbeddingShape embedding_grad_shape(const ir::Graph& graph, const ir::Node& node,
                                                    int tensor_rank) {
  using namespace ir::operand;
  const std::int64_t vocab = node.attributes.integer(ir::Attr::vocab);
  return {graph.local_elements(node.in(embedding_grad::tokens)), vocab,
          graph.value(node.in(embedding_grad::dy)).type.shape.back(), first_token(node, vocab, tensor_rank)};
}

/// The shape of cross_entropy, its part and its gradient, whose logits are their first operand.
inline kernels::LossShape loss_shape(const ir::Graph& graph, const ir::Node& node, int tensor_rank) {
  const ir::ValueId logits = node.in(ir::operand::cross_entropy::logits);
  const std::int64_t vocab = graph.value(logits).type.shape.back();
  return {graph.local_elements(logits) / vocab, vocab, first_token(node, vocab, tensor_rank)};
}

inline kernels::RopeShape rope_shape(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId x = node.in(ir::operand::rope::x);
  const std::int64_t width = graph.value(x).type.shape.back();
  const std::int64_t head_dim = node.attributes.integer(ir::Attr::head_dim);
  return {graph.local_elements(x) / width, width / head_dim, head_dim};
}

/// The shape of a rope_split or a rope_join.
inline kernels::QkvShape qkv_shape(const ir::Graph& graph, const ir::Node& node) {
  using namespace ir::operand;
  const ir::ValueId rows = node.in(node.op == ir::Op::rope_split ? rope_split::qkv : rope_join::dq);
  const std::int64_t width = graph.value(rows).type.shape.back();
  return {graph.local_elements(rows) / width, node.attributes.integer(ir::Attr::heads),
          node.attributes.integer(ir::Attr::kv_heads), node.attributes.integer(ir::Attr::head_dim)};
}

/// The shape of a swiglu that reads `gate`, and whose result, or whose result's gradient, is `y`.
inline kernels::SwigluShape swiglu_shape(const ir::Graph& graph, ir::ValueId gate, ir::ValueId y) {
  const std::int64_t dim = graph.value(y).type.shape.back();
  return {graph.local_elements(y) / dim, dim, graph.value(gate).type.shape.back()};
}

inline ReduceOrder reduce_order(const ir::Node& node) {
  return node.attributes.has(ir::Attr::native) ? ReduceOrder::native : ReduceOrder::canonical;
}

/// Whether the node is a reduction of gradients that reads the other ranks' slices where they stand, and so
/// has no scratch for them. What these lanes read stands in the arena or in a storage, which are shown.
inline bool reads_peers(const ir::Graph& graph, const ir::Node& node) {
  return graph.mesh().teams().peer_reads && node.op == ir::Op::reduce_scatter && node.lane == Lane::reduce &&
         reduce_order(node) == ReduceOrder::canonical;
}

/// Whether the node is an all-reduce of units that must sum in the order of the ranks. Such a sum is made as
/// a reduce-scatter and an all-gather, because the library's own adds in an order that may depend on sizes.
inline bool is_ordered_sum(const ir::Graph& graph, const ir::Node& node) {
  return node.op == ir::Op::all_reduce && graph.value(node.outputs.front()).unit.valid() &&
         reduce_order(node) == ReduceOrder::canonical;
}
/// How many calls the node makes on its channel.
inline std::size_t calls_of(const ir::Graph& graph, const ir::Node& node) {
  if (ir::is_message(node.op)) return 1;
  return node.outputs.size() * (is_ordered_sum(graph, node) ? 2 : 1);
}

}  // namespace weft::exec
