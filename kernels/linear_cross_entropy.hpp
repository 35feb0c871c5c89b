// A linear layer and the cross entropy of its result, computed some rows at a time, so that the logits never
// exist whole. Gradients can be made in the same pass, because gradients of the loss SUM need nothing that
// comes later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/dtype.hpp"
#include "kernels/matmul.hpp"
#include "kernels/space.hpp"

namespace weft::kernels {

struct LinearCrossEntropySpec {
  std::int64_t rows;   ///< B*T
  std::int64_t in;     ///< C
  std::int64_t vocab;  ///< V
  /// How many rows of logits exist at a time: the rows are cut into equal chunks of at most this.
  std::int64_t chunk;
  DType type;     ///< type of hidden states, weight, logits and their gradients: f32 or bf16
  DType dw_type;  ///< type of the weight's gradient: f32 or bf16
  F32Products f32_products = F32Products::split;  ///< way of the matmuls, where the type is f32
  bool operator==(const LinearCrossEntropySpec&) const = default;
  auto operator<=>(const LinearCrossEntropySpec&) const = default;
};

/// Bytes of scratch of the loss alone, and of the loss with its gradients, where each product wants at most
/// `product_bytes`.
struct LinearLossScratch {
  std::size_t loss, gradients;
};
LinearLossScratch linear_loss_scratch(const LinearCrossEntropySpec& spec, std::size_t product_bytes);

class LinearCrossEntropy {
 public:
  /// Prepares the matmuls of its shapes. Throws std::logic_error as Matmul does.
  explicit LinearCrossEntropy(const LinearCrossEntropySpec& spec);
  ~LinearCrossEntropy();
  LinearCrossEntropy(LinearCrossEntropy&&) noexcept;
  LinearCrossEntropy& operator=(LinearCrossEntropy&&) noexcept;

  /// The products that it is made of.
  std::vector<Matmul*> matmuls();

  std::size_t loss_scratch_bytes() const;
  std::size_t gradients_scratch_bytes() const;

  /// Computes the loss of h [rows, in] and w [vocab, in], both of `type`. targets [rows] and totals [2] are
  /// those of cross_entropy(); the chunks' sums are added in order.
  void loss(Space& space, const void* h, const void* w, const std::int32_t* targets, double* totals,
            void* scratch);
  /// Computes the loss, and dh [rows, in] of `type` and dw [vocab, in] of `dw_type`. dw is summed over the
  /// chunks in order, in fp32, and rounded once. With one chunk all bits are those of matmul, cross_entropy,
  /// cross_entropy_grad and the two matmuls behind it.
  void gradients(Space& space, const void* h, const void* w, const std::int32_t* targets, double* totals,
                 void* dh, void* dw, void* scratch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::kernels
