// The matmuls of a process by shape, and the heads made of them: each is prepared once and used by every node
// of that shape.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "ir/graph.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "kernels/matmul.hpp"

namespace weft::exec {

kernels::MatmulSpec matmul_spec(const ir::Graph& graph, const ir::Node& node);
/// The bytes of scratch in which an operand in Float8 stands as bf16.
std::size_t decoded_bytes(const ir::Graph& graph, ir::ValueId value);
kernels::LinearCrossEntropySpec linear_loss_spec(const ir::Graph& graph, const ir::Node& node);

class Matmuls {
 public:
  explicit Matmuls(F32Products products = F32Products::split) : f32_products_(products) {}

  /// The matmul of this spec, which computes f32 products in this object's way, whatever the spec says.
  kernels::Matmul& get(kernels::MatmulSpec spec);
  kernels::LinearCrossEntropy& get(kernels::LinearCrossEntropySpec spec);

 private:
  F32Products f32_products_;
  using Key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, DType, DType, bool>;
  std::map<Key, std::unique_ptr<kernels::Matmul>> by_spec_;
  std::map<kernels::LinearCrossEntropySpec, std::unique_ptr<kernels::LinearCrossEntropy>> losses_;
};

}  // namespace weft::exec
