// Internal to attention_cudnn.cpp: a graph of cuDNN's, which describes attention over some heads and
// sequences. What stands in memory is described here, and what is computed there.
#pragma once

#include <cstring>  // which the front end uses and does not include

#include <cudnn_frontend.h>
#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.hpp"
#include "kernels/attention.hpp"
#include "kernels/attention_cudnn.hpp"
#include "kernels/space.hpp"

namespace weft::kernels::cudnn {

namespace fe = cudnn_frontend;
using Tensor = fe::graph::Tensor_attributes;
using Operands = std::unordered_map<std::int64_t, void*>;

/// The operands' names in cuDNN's graphs.
enum Operand : std::int64_t { id_q = 1, id_k, id_v, id_o, id_lse, id_do, id_dq, id_dk, id_dv };

inline void check_status(cudnnStatus_t status, const char* expression) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(ExitCode::environment,
                fmt::format("{} failed ({})", expression, cudnnGetErrorString(status)));
}
#define WEFT_CHECK_CUDNN(call) check_status((call), #call)

/// Throws NotSupported when cuDNN refuses. While a graph is made, any refusal means that cuDNN does not take
/// the shape, because back ends report the same thing by several codes.
inline void require(const fe::error_t& result) {
  if (result.is_bad()) throw NotSupported(result.err_msg);
}

/// The process's handle. It is never destroyed, because static objects outlive CUDA.
inline cudnnHandle_t handle() {
  static const cudnnHandle_t value = [] {
    cudnnHandle_t h = nullptr;
    WEFT_CHECK_CUDNN(cudnnCreate(&h));
    return h;
  }();
  return value;
}

/// The device of compile_for().
struct Elsewhere {
  std::shared_ptr<const fe::DeviceProperties> properties;  ///< null: kernels are for the device that is here
  int sm = 0;
};
inline Elsewhere& elsewhere() {
  static Elsewhere device;
  return device;
}

/// Heads of sequences in memory, [B, `tokens`, `heads_of_a_token`, D].
struct Layout {
  std::int64_t tokens;  ///< from one sequence to the next
  std::int64_t heads_of_a_token;
};

/// A graph of some heads and sequences, `part`, of `whole`: a run of their queries (q, o, their gradients)
/// and the keys that these see (k, v, their gradients).
class Graph {
 public:
  Graph(const AttentionShape& part, const AttentionShape& whole, std::int64_t run)
      : part_(part),
        queries_(whole.queries()),
        keys_(whole.first(run) + whole.queries()),
        query_layout_{queries_, whole.heads},
        key_layout_{whole.seq, whole.kv_heads} {
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (elsewhere().properties != nullptr)
      graph_.set_device_properties(elsewhere().properties).set_sm_version(elsewhere().sm);
  }

  std::shared_ptr<Tensor> query_input(Operand id) {
    Tensor tensor;
    describe(tensor, id, part_.heads, queries_, query_layout_);
    return graph_.tensor(tensor);
  }
  std::shared_ptr<Tensor> key_input(Operand id) {
    Tensor tensor;
    describe(tensor, id, part_.kv_heads, keys_, key_layout_);
    return graph_.tensor(tensor);
  }
  std::shared_ptr<Tensor> lse_input() {
    Tensor tensor;
    describe_lse(tensor);
    return graph_.tensor(tensor);
  }
  void query_output(Tensor& tensor, Operand id) const {
    describe(tensor.set_output(true), id, part_.heads, queries_, query_layout_);
  }
  void key_output(Tensor& tensor, Operand id, const Layout& layout) const {
    describe(tensor.set_output(true), id, part_.kv_heads, keys_, layout);
  }
  void lse_output(Tensor& tensor) const { describe_lse(tensor.set_output(true)); }

  /// Which of its keys the last query of the run sees last: the last one of all.
  fe::DiagonalAlignment_t alignment() const {
    return keys_ == queries_ ? fe::DiagonalAlignment_t::TOP_LEFT : fe::DiagonalAlignment_t::BOTTOM_RIGHT;
  }
  std::int64_t keys() const { return keys_; }

  fe::graph::Graph& operations() { return graph_; }

  void build() {
    require(graph_.validate());
    require(elsewhere().properties != nullptr ? graph_.build_operation_graph()
                                              : graph_.build_operation_graph(handle()));
    require(graph_.create_execution_plans({fe::HeurMode_t::A}));
    require(graph_.check_support());
    require(graph_.build_plans());
    std::int64_t bytes = 0;
    require(graph_.get_workspace_size(bytes));
    workspace_bytes_ = static_cast<std::size_t>(bytes);
  }

  const AttentionShape& part() const { return part_; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }

  void run(Space& space, Operands operands, void* scratch) {
    WEFT_CHECK_CUDNN(cudnnSetStream(handle(), static_cast<cudaStream_t>(native_stream(space))));
    const fe::error_t result = graph_.execute(handle(), operands, scratch);
    if (result.is_bad()) throw Error(ExitCode::environment, "cuDNN's attention failed: " + result.err_msg);
  }

 private:
  /// Describes heads of sequences, in cuDNN's order B, H, T, D.
  void describe(Tensor& tensor, Operand id, std::int64_t heads, std::int64_t tokens,
                const Layout& layout) const {
    const std::int64_t token = layout.heads_of_a_token * part_.head_dim;
    tensor.set_uid(id)
        .set_dim({part_.batch, heads, tokens, part_.head_dim})
        .set_stride({layout.tokens * token, part_.head_dim, token, 1})
        .set_data_type(fe::DataType_t::BFLOAT16);
  }
  /// lse, which cuDNN calls statistics. It reads them densely packed only.
  void describe_lse(Tensor& tensor) const {
    tensor.set_uid(id_lse)
        .set_dim({part_.batch, part_.heads, queries_, 1})
        .set_stride({part_.heads * queries_, queries_, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  }

  AttentionShape part_;
  std::int64_t queries_, keys_;
  Layout query_layout_, key_layout_;
  fe::graph::Graph graph_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace weft::kernels::cudnn
