// Attention by cuDNN's graph API: the graph has one operation, which the library fuses and compiles for the
// device.
#include "kernels/attention_cudnn.hpp"

#include <cstring>  // which the front end uses and does not include

#include <cudnn_frontend.h>
#include <fmt/core.h>

#include <cmath>
#include <unordered_map>

#include "base/check.hpp"
#include "base/dtype.hpp"
#include "kernels/attention_parts.hpp"

namespace weft::kernels::cudnn {

namespace {

namespace fe = cudnn_frontend;
using Tensor = fe::graph::Tensor_attributes;
using Operands = std::unordered_map<std::int64_t, void*>;

/// The operands' names in cuDNN's graphs.
enum Operand : std::int64_t { id_q = 1, id_k, id_v, id_o, id_lse, id_do, id_dq, id_dk, id_dv };

void check_status(cudnnStatus_t status, const char* expression) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(ExitCode::environment,
                fmt::format("{} failed ({})", expression, cudnnGetErrorString(status)));
}
#define WEFT_CHECK_CUDNN(call) check_status((call), #call)

/// Throws NotSupported when cuDNN refuses. While a graph is made, any refusal means that cuDNN does not take
/// the shape, because back ends report the same thing by several codes.
void require(const fe::error_t& result) {
  if (result.is_bad()) throw NotSupported(result.err_msg);
}

/// The process's handle. It is never destroyed, because static objects outlive CUDA.
cudnnHandle_t handle() {
  static const cudnnHandle_t value = [] {
    cudnnHandle_t h = nullptr;
    WEFT_CHECK_CUDNN(cudnnCreate(&h));
    return h;
  }();
  return value;
}

float scale(const AttentionShape& s) {
  return 1.0F / std::sqrt(static_cast<float>(s.head_dim));
}

/// Describes `heads` heads of [B, T, `heads_of_a_token`, D], in cuDNN's order B, H, T, D.
void describe(Tensor& tensor, Operand id, const AttentionShape& part, std::int64_t heads,
              std::int64_t heads_of_a_token) {
  const std::int64_t token = heads_of_a_token * part.head_dim;
  tensor.set_uid(id)
      .set_dim({part.batch, heads, part.seq, part.head_dim})
      .set_stride({part.seq * token, part.head_dim, token, 1})
      .set_data_type(fe::DataType_t::BFLOAT16);
}

/// Describes lse, which cuDNN calls statistics. It reads them densely packed only.
void describe_lse(Tensor& tensor, const AttentionShape& part) {
  tensor.set_uid(id_lse)
      .set_dim({part.batch, part.heads, part.seq, 1})
      .set_stride({part.heads * part.seq, part.seq, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

/// A graph whose tensors are those of `part` within tensors of `whole`: queries (q, o, their gradients) with
/// H heads a token, and keys (k, v, their gradients) with Hkv heads.
class Graph {
 public:
  Graph(const AttentionShape& part, const AttentionShape& whole) : part_(part), whole_(whole) {
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<Tensor> query_input(Operand id) {
    Tensor tensor;
    describe(tensor, id, part_, part_.heads, whole_.heads);
    return graph_.tensor(tensor);
  }
  std::shared_ptr<Tensor> key_input(Operand id) {
    Tensor tensor;
    describe(tensor, id, part_, part_.kv_heads, whole_.kv_heads);
    return graph_.tensor(tensor);
  }
  std::shared_ptr<Tensor> lse_input() {
    Tensor tensor;
    describe_lse(tensor, part_);
    return graph_.tensor(tensor);
  }
  void query_output(Tensor& tensor, Operand id) const {
    describe(tensor.set_output(true), id, part_, part_.heads, whole_.heads);
  }
  void key_output(Tensor& tensor, Operand id) const {
    describe(tensor.set_output(true), id, part_, part_.kv_heads, whole_.kv_heads);
  }
  void lse_output(Tensor& tensor) const { describe_lse(tensor.set_output(true), part_); }

  fe::graph::Graph& operations() { return graph_; }

  void build() {
    require(graph_.validate());
    require(graph_.build_operation_graph(handle()));
    require(graph_.create_execution_plans({fe::HeurMode_t::A}));
    require(graph_.check_support());
    require(graph_.build_plans());
    std::int64_t bytes = 0;
    require(graph_.get_workspace_size(bytes));
    scratch_bytes_ = static_cast<std::size_t>(bytes);
  }

  const AttentionShape& part() const { return part_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(Space& space, Operands operands, void* scratch) {
    WEFT_CHECK_CUDNN(cudnnSetStream(handle(), static_cast<cudaStream_t>(native_stream(space))));
    const fe::error_t result = graph_.execute(handle(), operands, scratch);
    if (result.is_bad()) throw Error(ExitCode::environment, "cuDNN's attention failed: " + result.err_msg);
  }

 private:
  AttentionShape part_, whole_;
  fe::graph::Graph graph_;
  std::size_t scratch_bytes_ = 0;
};

/// A pointer for cuDNN, which takes what it only reads by the same type as what it writes.
void* operand(const void* p, std::int64_t offset_bytes = 0) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(p)) + offset_bytes;
}

std::unique_ptr<Graph> forward_graph(const AttentionShape& s) {
  if (s.context > 1) throw NotSupported("ranks share its sequences");
  auto graph = std::make_unique<Graph>(s, s);
  const auto options = fe::graph::SDPA_attributes()
                           .set_name("attention")
                           .set_generate_stats(true)
                           .set_attn_scale(scale(s))
                           .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                           .set_diagonal_band_right_bound(0);
  const auto [o, lse] = graph->operations().sdpa(graph->query_input(id_q), graph->key_input(id_k),
                                                 graph->key_input(id_v), options);
  graph->query_output(*o, id_o);
  graph->lse_output(*lse);
  graph->build();
  return graph;
}

std::unique_ptr<Graph> backward_graph(const AttentionShape& part, const AttentionShape& whole) {
  if (whole.context > 1) throw NotSupported("ranks share its sequences");
  // The front end puts sums for each row before cuDNN's own workspace, and the lse of parts follow each
  // other.
  if (part.batch * part.heads * part.seq % 4 != 0)
    throw NotSupported("the log-sum-exps of all heads and tokens are no multiple of 16 bytes");
  auto graph = std::make_unique<Graph>(part, whole);
  const auto options = fe::graph::SDPA_backward_attributes()
                           .set_name("attention_grad")
                           .set_attn_scale(scale(whole))
                           .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                           .set_diagonal_band_right_bound(0)
                           .set_deterministic_algorithm(whole.deterministic);
  const auto [dq, dk, dv] = graph->operations().sdpa_backward(
      graph->query_input(id_q), graph->key_input(id_k), graph->key_input(id_v), graph->query_input(id_o),
      graph->query_input(id_do), graph->lse_input(), options);
  graph->query_output(*dq, id_dq);
  graph->key_output(*dk, id_dk);
  graph->key_output(*dv, id_dv);
  graph->build();
  return graph;
}

}  // namespace

struct Attention::Impl {
  std::unique_ptr<Graph> graph;
};

Attention::Attention(const AttentionShape& shape) : impl_(new Impl{forward_graph(shape)}) {}
Attention::~Attention() = default;

std::size_t Attention::scratch_bytes() const {
  return impl_->graph->scratch_bytes();
}

void Attention::run(Space& space, const void* q, const void* k, const void* v, void* o, float* lse,
                    void* scratch) {
  impl_->graph->run(
      space, {{id_q, operand(q)}, {id_k, operand(k)}, {id_v, operand(v)}, {id_o, o}, {id_lse, lse}}, scratch);
}

struct AttentionBackward::Impl {
  AttentionShape whole;
  std::unique_ptr<Graph> graph;
};

AttentionBackward::AttentionBackward(const AttentionShape& shape, std::size_t most_scratch_bytes)
    : impl_(new Impl{shape, nullptr}) {
  part_within(shape, most_scratch_bytes, [&](const AttentionShape& part) {
    impl_->graph = backward_graph(part, shape);
    return impl_->graph->scratch_bytes();
  });
}
AttentionBackward::~AttentionBackward() = default;

std::size_t AttentionBackward::scratch_bytes() const {
  return impl_->graph->scratch_bytes();
}

void AttentionBackward::run(Space& space, const AttentionGrad& g) {
  const AttentionShape &whole = impl_->whole, &part = impl_->graph->part();
  const std::int64_t group = whole.heads / whole.kv_heads;
  const std::int64_t head_bytes = whole.head_dim * static_cast<std::int64_t>(size_of(DType::bf16));
  for (std::int64_t b = 0; b < whole.batch; b += part.batch)
    for (std::int64_t kv = 0; kv < whole.kv_heads; kv += part.kv_heads) {
      const std::int64_t q = (b * whole.seq * whole.heads + kv * group) * head_bytes;
      const std::int64_t k = (b * whole.seq * whole.kv_heads + kv) * head_bytes;
      const std::int64_t lse =
          (b * whole.heads + kv * group) * whole.seq * static_cast<std::int64_t>(sizeof(float));
      impl_->graph->run(space,
                        {{id_q, operand(g.q, q)},
                         {id_k, operand(g.k, k)},
                         {id_v, operand(g.v, k)},
                         {id_o, operand(g.o, q)},
                         {id_lse, operand(g.lse, lse)},
                         {id_do, operand(g.do_, q)},
                         {id_dq, operand(g.dq, q)},
                         {id_dk, operand(g.dk, k)},
                         {id_dv, operand(g.dv, k)}},
                        g.scratch);
    }
}

}  // namespace weft::kernels::cudnn
