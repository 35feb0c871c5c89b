// Finds out by which of its library's algorithms each product of a step is fastest.
#pragma once

#include "kernels/matmul.hpp"
#include "runtime/session.hpp"

namespace weft::measure {

struct Algorithms {
  int products = 0;  ///< how many products of all ranks the library has several algorithms for
  /// Those for which another algorithm takes less time than the library's first choice.
  kernels::ProductAlgorithms chosen;
  /// Seconds of one product of each kind: by the first choices, and by those that were chosen.
  double first_s = 0, chosen_s = 0;
};

/// Collective: times the algorithms of the session's products (exec::Matmuls), also those in Float8, each
/// with operands of its own, and lets the products take the fastest. Call it when a plan's products are
/// prepared, and before its memory is allocated. All ranks of a product's kind take that of the first of
/// them. Nothing is measured on hosts.
Algorithms choose_algorithms(runtime::Session& session);

}  // namespace weft::measure
