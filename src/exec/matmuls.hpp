// The matmuls of a process by shape, and the heads made of them: each is prepared once and used by every node
// of that shape.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/graph.hpp"
#include "kernels/float8_matmul.hpp"
#include "kernels/linear_cross_entropy.hpp"
#include "kernels/matmul.hpp"

namespace weft::exec {

/// The shape of a product; where operands are in Float8, that of their values as bf16.
kernels::MatmulSpec matmul_spec(const ir::Graph& graph, const ir::Node& node);
Float8Scales float8_scales(const ir::Node& node);
kernels::LinearCrossEntropySpec linear_loss_spec(const ir::Graph& graph, const ir::Node& node);

class Matmuls {
 public:
  explicit Matmuls(F32Products products = F32Products::split) : f32_products_(products) {}

  /// How products of f32 operands are computed.
  F32Products f32_products() const { return f32_products_; }
  /// The matmul of this spec, which computes f32 products in this object's way, whatever the spec says.
  kernels::Matmul& get(kernels::MatmulSpec spec);
  kernels::LinearCrossEntropy& get(kernels::LinearCrossEntropySpec spec);
  /// The product in Float8 that the node makes.
  kernels::Float8Matmul& get_float8(const ir::Graph& graph, const ir::Node& node);

  /// Lets the products of the map take its algorithms, those that there are and those to come. It is for
  /// before the first of them runs.
  void take(kernels::ProductAlgorithms algorithms);
  /// How many products so far could not take theirs, because the library or the device does not know them.
  int refused() const { return refused_; }
  /// One product of each kind that there is, with those of the heads.
  std::vector<kernels::Matmul*> products();
  /// The products in Float8 that there are.
  std::vector<kernels::Float8Matmul*> float8_products();

 private:
  std::vector<kernels::Matmul*> all();
  template <class Product>
  void take_for(Product& product) {
    refused_ += product.take(algorithms_) ? 0 : 1;
  }

  F32Products f32_products_;
  kernels::ProductAlgorithms algorithms_;
  int refused_ = 0;
  using Key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, DType, DType, bool>;
  static Key key(const kernels::MatmulSpec& s) {
    return {static_cast<int>(s.form), s.rows, s.in, s.out, s.type, s.result, s.add};
  }
  std::map<Key, std::unique_ptr<kernels::Matmul>> by_spec_;
  std::map<std::tuple<Key, DType, Float8Scales>, std::unique_ptr<kernels::Float8Matmul>> float8_;
  std::map<kernels::LinearCrossEntropySpec, std::unique_ptr<kernels::LinearCrossEntropy>> losses_;
};

}  // namespace weft::exec
