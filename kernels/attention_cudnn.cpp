// Attention by cuDNN's graph API: the graph has one operation, which the library fuses and compiles for the
// device.
#include "kernels/attention_cudnn.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/align.hpp"
#include "base/dtype.hpp"
#include "kernels/attention_cudnn_graph.hpp"
#include "kernels/attention_parts.hpp"
#include "kernels/attention_pieces.hpp"
#include "kernels/gpu_scratch.hpp"

namespace weft::kernels::cudnn {

namespace {

float scale(const AttentionShape& s) {
  return 1.0F / std::sqrt(static_cast<float>(s.head_dim));
}

/// The graphs of the runs of a rank's queries.
using Graphs = std::vector<std::unique_ptr<Graph>>;

std::size_t most_workspace(const Graphs& graphs) {
  std::size_t bytes = 0;
  for (const auto& graph : graphs) bytes = std::max(bytes, graph->workspace_bytes());
  return bytes;
}

/// A pointer for cuDNN, which takes what it only reads by the same type as what it writes.
void* operand(const void* p, std::int64_t offset_bytes = 0) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(p)) + offset_bytes;
}

void check_sections(const AttentionShape& s) {
  // What all versions of cuDNN take where there are more keys than queries.
  if (!gpu::has_whole_sections(s))
    throw NotSupported("the sections of its sequences are no multiple of 64 tokens");
}

std::unique_ptr<Graph> forward_graph(const AttentionShape& s, std::int64_t run) {
  auto graph = std::make_unique<Graph>(s, s, run);
  const auto options = fe::graph::SDPA_attributes()
                           .set_name("attention")
                           .set_generate_stats(true)
                           .set_attn_scale(scale(s))
                           .set_diagonal_alignment(graph->alignment())
                           .set_diagonal_band_right_bound(0);
  const auto [o, lse] = graph->operations().sdpa(graph->query_input(id_q), graph->key_input(id_k),
                                                 graph->key_input(id_v), options);
  graph->query_output(*o, id_o);
  graph->lse_output(*lse);
  graph->build();
  return graph;
}

/// Whether a part's gradients of keys are the results, or those of a run that others are added to.
bool in_place(const AttentionShape& part, const AttentionShape& whole, std::int64_t run) {
  return parts_of_group(part, whole) == 1 && run + 1 == whole.runs();
}

std::unique_ptr<Graph> backward_graph(const AttentionShape& part, const AttentionShape& whole,
                                      std::int64_t run) {
  // The front end puts sums for each row before cuDNN's own workspace, and the lse of parts follow each
  // other.
  if (part.batch * part.heads * whole.queries() % 4 != 0)
    throw NotSupported("the log-sum-exps of all heads and tokens are no multiple of 16 bytes");
  auto graph = std::make_unique<Graph>(part, whole, run);
  const auto options = fe::graph::SDPA_backward_attributes()
                           .set_name("attention_grad")
                           .set_attn_scale(scale(whole))
                           .set_diagonal_alignment(graph->alignment())
                           .set_diagonal_band_right_bound(0)
                           .set_deterministic_algorithm(whole.deterministic);
  const auto [dq, dk, dv] = graph->operations().sdpa_backward(
      graph->query_input(id_q), graph->key_input(id_k), graph->key_input(id_v), graph->query_input(id_o),
      graph->query_input(id_do), graph->lse_input(), options);
  graph->query_output(*dq, id_dq);
  const Layout gradients =
      in_place(part, whole, run) ? Layout{whole.seq, whole.kv_heads} : Layout{graph->keys(), part.kv_heads};
  graph->key_output(*dk, id_dk, gradients);
  graph->key_output(*dv, id_dv, gradients);
  graph->build();
  return graph;
}

constexpr auto element_bytes = static_cast<std::int64_t>(size_of(DType::bf16));

}  // namespace

struct Attention::Impl {
  AttentionShape shape;
  Graphs graphs;
};

Attention::Attention(const AttentionShape& shape) : impl_(new Impl{shape, {}}) {
  check_sections(shape);
  for (std::int64_t run = 0; run < shape.runs(); ++run) impl_->graphs.push_back(forward_graph(shape, run));
}
Attention::Attention(const AttentionShape& shape, const Attention& first) : Attention(shape) {
  if (scratch_bytes() > first.scratch_bytes())
    throw NotSupported("it wants more scratch than at the first place");
}
Attention::~Attention() = default;

std::size_t Attention::scratch_bytes() const {
  return most_workspace(impl_->graphs);
}

void Attention::run(Space& space, const void* q, const void* k, const void* v, void* o, float* lse,
                    void* scratch) {
  const AttentionShape& s = impl_->shape;
  const std::int64_t rows = s.batch * s.heads * s.queries();  // of a run
  for (std::size_t run = 0; run < impl_->graphs.size(); ++run) {
    const std::int64_t row = static_cast<std::int64_t>(run) * rows;
    const std::int64_t offset = row * s.head_dim * element_bytes;
    impl_->graphs[run]->run(space,
                            {{id_q, operand(q, offset)},
                             {id_k, operand(k)},
                             {id_v, operand(v)},
                             {id_o, operand(o, offset)},
                             {id_lse, lse + row}},
                            scratch);
  }
}

struct AttentionBackward::Impl {
  AttentionShape whole;
  Graphs graphs;

  void build(const AttentionShape& part) {
    graphs.clear();
    for (std::int64_t run = 0; run < whole.runs(); ++run) graphs.push_back(backward_graph(part, whole, run));
  }
  const AttentionShape& part() const { return graphs.front()->part(); }
  std::size_t workspace_bytes() const { return most_workspace(graphs); }

  void run_part(Space& space, const AttentionGrad& g, std::int64_t b, std::int64_t kv) const;
};

AttentionBackward::AttentionBackward(const AttentionShape& shape, std::size_t most_workspace_bytes)
    : impl_(new Impl{shape, {}}) {
  check_sections(shape);
  part_within(shape, most_workspace_bytes, [&](const AttentionShape& part) {
    impl_->build(part);
    return impl_->workspace_bytes();
  });
}
AttentionBackward::AttentionBackward(const AttentionShape& shape, const AttentionBackward& first)
    : impl_(new Impl{shape, {}}) {
  impl_->build(first.impl_->part());
  if (workspace_bytes() > first.workspace_bytes())
    throw NotSupported("it wants more scratch than at the first place");
}
AttentionBackward::~AttentionBackward() = default;

std::size_t AttentionBackward::workspace_bytes() const {
  return impl_->workspace_bytes();
}

std::size_t AttentionBackward::scratch_bytes() const {
  return backward_scratch_bytes(impl_->part(), impl_->whole, workspace_bytes());
}

void AttentionBackward::run(Space& space, const AttentionGrad& g) {
  const AttentionShape &whole = impl_->whole, &part = impl_->part();
  for (std::int64_t b = 0; b < whole.batch; b += part.batch)
    for (std::int64_t kv = 0; kv < whole.kv_heads; kv += part.kv_heads) impl_->run_part(space, g, b, kv);
}

/// All runs of the queries that read the part's kv heads, from `kv` on, of its sequences from `b` on.
void AttentionBackward::Impl::run_part(Space& space, const AttentionGrad& g, std::int64_t b,
                                       std::int64_t kv) const {
  const std::int64_t group = whole.heads / whole.kv_heads, parts = parts_of_group(part(), whole);
  const std::int64_t width = part().kv_heads * part().head_dim;
  const std::int64_t keys = (b * whole.seq * whole.kv_heads + kv) * whole.head_dim;  // the first element
  PieceSum sum{part().batch, whole.seq, width, whole.kv_heads * whole.head_dim, {}, 0};
  auto* const pieces =
      reinterpret_cast<bf16*>(static_cast<std::byte*>(g.scratch) + aligned(most_workspace(graphs)));
  const auto dv_pieces =
      static_cast<std::int64_t>(gradient_pieces_bytes(part(), whole) / sizeof(bf16));  // behind those of dk
  std::int64_t used = 0;
  for (std::size_t r = 0; r < graphs.size(); ++r) {
    Graph& graph = *graphs[r];
    const auto run = static_cast<std::int64_t>(r);
    const bool direct = in_place(part(), whole, run);
    const std::int64_t piece = part().batch * graph.keys() * width;
    if (direct)
      sum.tokens_in_place = graph.keys();
    else
      sum.pieces[r] = {pieces + used, parts, graph.keys()};
    for (std::int64_t p = 0; p < parts; ++p) {
      const std::int64_t row = (run * whole.batch + b) * whole.queries() * whole.heads;
      const std::int64_t head = kv * group + p * part().heads;
      const std::int64_t q = (row + head) * whole.head_dim * element_bytes;
      const std::int64_t lse = (row + head * whole.queries()) * static_cast<std::int64_t>(sizeof(float));
      bf16* const dk = direct ? static_cast<bf16*>(g.dk) + keys : pieces + used;
      bf16* const dv = direct ? static_cast<bf16*>(g.dv) + keys : pieces + dv_pieces + used;
      graph.run(space,
                {{id_q, operand(g.q, q)},
                 {id_k, operand(g.k, keys * element_bytes)},
                 {id_v, operand(g.v, keys * element_bytes)},
                 {id_o, operand(g.o, q)},
                 {id_lse, operand(g.lse, lse)},
                 {id_do, operand(g.do_, q)},
                 {id_dq, operand(g.dq, q)},
                 {id_dk, dk},
                 {id_dv, dv}},
                g.scratch);
      if (!direct) used += piece;
    }
  }
  if (used == 0) return;
  sum_pieces(space, sum, static_cast<bf16*>(g.dk) + keys);
  for (GradientPieces& p : sum.pieces)
    if (p.count > 0) p.data += dv_pieces;
  sum_pieces(space, sum, static_cast<bf16*>(g.dv) + keys);
}

void compile_for(const std::string& properties, int sm) {
  const auto device = std::make_shared<fe::DeviceProperties>();
  require(device->deserialize({properties.begin(), properties.end()}));
  elsewhere() = {device, sm};
}

}  // namespace weft::kernels::cudnn
