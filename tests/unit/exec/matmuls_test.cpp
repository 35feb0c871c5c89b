// Tests that a step's products take the algorithms that a machine profile names for them, those in Float8
// too.
#include "exec/matmuls.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/device.hpp"
#include "support/kokkos_environment.hpp"
#include "unit/graph/small_model.hpp"

namespace weft::exec {
namespace {

using kernels::ProductAlgorithms;

void make_products(Matmuls& matmuls, const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (ir::is_float8_product(node.op)) matmuls.get_float8(graph, node);
    if (node.op == ir::Op::matmul || node.op == ir::Op::matmul_dgrad || node.op == ir::Op::matmul_wgrad)
      matmuls.get(matmul_spec(graph, node));
  }
}

/// Whether this device, or its library, makes no products in Float8. The fakes make them.
bool decodes(Matmuls& matmuls) {
#ifdef WEFT_FAKECUDA
  static_cast<void>(matmuls);
  return false;
#else
  return !device_is_host() && matmuls.float8_products().at(0)->algorithms(1).empty();
#endif
}

/// Maps each of the products to the last algorithm that the library offers for it. Hosts have no algorithms;
/// there a product is mapped to a word, which it does not take.
template <class Product>
ProductAlgorithms last_of(const std::vector<Product*>& products) {
  ProductAlgorithms last;
  for (const Product* product : products) {
    const std::vector<std::string> offered = product->algorithms(8);
    EXPECT_EQ(offered.empty(), device_is_host());
#ifdef WEFT_FAKECUDA
    EXPECT_EQ(offered.size(), 3U);
#endif
    last.emplace(name_of(product->spec()), offered.empty() ? "of a GPU" : offered.back());
  }
  EXPECT_EQ(last.size(), products.size()) << "two products have one name";
  return last;
}

/// Gives the algorithm by which a product must run: that of the map, or else the library's first choice. On
/// hosts its text is empty.
template <class Product>
std::string expected_algorithm(const Product& product, const ProductAlgorithms& algorithms) {
  if (device_is_host()) return "";
  const auto named = algorithms.find(name_of(product.spec()));
  return named != algorithms.end() ? named->second : product.algorithms(1).at(0);
}

template <class Product>
void expect_taken(const std::vector<Product*>& products, const ProductAlgorithms& algorithms) {
  EXPECT_FALSE(products.empty());
  for (const Product* product : products)
    EXPECT_EQ(product->algorithm(), expected_algorithm(*product, algorithms)) << name_of(product->spec());
}

/// A profile of a Weft that measured no products in Float8 names those in bf16 alone.
TEST(Matmuls, TakeTheAlgorithmsOfTheirOwnNames) {
  const ir::Graph graph = test::small_step_with_float8();
  Matmuls untouched;
  make_products(untouched, graph);
  ASSERT_GE(untouched.float8_products().size(), 4U) << "forward and backward of two shapes";
  if (decodes(untouched)) GTEST_SKIP() << "this device makes no products in Float8";
  const ProductAlgorithms in_bf16 = last_of(untouched.products()),
                          in_float8 = last_of(untouched.float8_products());
  ProductAlgorithms both = in_bf16;
  both.insert(in_float8.begin(), in_float8.end());
  EXPECT_EQ(both.size(), in_bf16.size() + in_float8.size());
  for (const ProductAlgorithms& algorithms : {ProductAlgorithms{}, in_bf16, in_float8, both})
    for (const bool before : {true, false}) {
      SCOPED_TRACE(std::to_string(algorithms.size()) +
                   (before ? " algorithms before their products" : " algorithms behind their products"));
      Matmuls matmuls;
      if (before) matmuls.take(algorithms);
      make_products(matmuls, graph);
      if (!before) matmuls.take(algorithms);
      EXPECT_EQ(matmuls.refused(), 0);
      expect_taken(matmuls.products(), algorithms);
      expect_taken(matmuls.float8_products(), algorithms);
    }
}

/// On hosts there is nothing to take, and nothing to refuse.
TEST(Matmuls, CountTheAlgorithmsInFloat8ThatNobodyKnows) {
  const ir::Graph graph = test::small_step_with_float8();
  for (const bool before : {true, false}) {
    Matmuls untouched, matmuls;
    make_products(untouched, graph);
    if (decodes(untouched)) GTEST_SKIP() << "this device makes no products in Float8";
    const ProductAlgorithms unknown{
        {name_of(untouched.float8_products().at(0)->spec()), "cuBLASLt 1 2 3 4 5 6 7 8 9"}};
    if (before) matmuls.take(unknown);
    make_products(matmuls, graph);
    if (!before) matmuls.take(unknown);
    EXPECT_EQ(matmuls.refused(), device_is_host() ? 0 : 1);
    expect_taken(matmuls.float8_products(), {});
  }
}

}  // namespace
}  // namespace weft::exec
