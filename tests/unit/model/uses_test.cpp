// Tests gradients of values with several uses, where the model is not a Llama: a matmul that reads the
// residual stream itself, a value that a node reads twice, and a table that is read as embedding and as head.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/rng.hpp"
#include "exec/executor.hpp"
#include "exec/scratch.hpp"
#include "ops/builder.hpp"
#include "ops/storages.hpp"
#include "passes/passes.hpp"
#include "runtime/session.hpp"
#include "support/kokkos_environment.hpp"
#include "support/small_deck.hpp"

namespace weft {
namespace {

using ir::Op;
using ir::Role;
using ir::ValueId;

constexpr std::int64_t vocab = 7, dim = 4, seq = 5;
constexpr std::array<std::int32_t, seq> tokens{3, 1, 6, 1, 0}, targets{1, 6, 1, 0, 2};

/// The unit of the parameters table [vocab, dim] and w [dim, dim].
Unit unit() {
  return {
      "net", {{"net.table", {vocab, dim}, 0}, {"net.w", {dim, dim}, vocab * dim}}, vocab * dim + dim * dim};
}

/// The forward x = table[tokens]; h = x w^T + x; y = h w^T + h; z = y + y; logits = z table^T.
ir::Graph forward() {
  ir::Graph graph("uses", Mesh({{"data", 1}}), {unit()});
  const ir::Type row{DType::i32, {1, seq}};
  const auto tokens_home = graph.add_storage({"tokens", Role::input, row, {}, {}});
  const auto targets_home = graph.add_storage({"targets", Role::input, row, {}, {}});
  const ir::UnitId net(0);
  const auto master = graph.add_storage(
      {ops::storage_name(Role::master, unit()), Role::master, {DType::f32, {unit().elements}}, net, {}});
  ops::Builder b(graph);
  const ValueId whole = b.state(master);
  const ValueId table = b.view(whole, 0, "net.table"), w = b.view(whole, 1, "net.w");
  ValueId x = b.emit_one(Op::embedding, "net", {b.state(tokens_home), table}, "x");
  for (const char* name : {"h", "y"})
    x = b.emit_one(Op::add, "net", {b.emit_one(Op::matmul, "net", {x, w}, std::string(name) + ".product"), x},
                   name);
  const ValueId z = b.emit_one(Op::add, "net", {x, x}, "z");
  const ValueId logits = b.emit_one(Op::matmul, "net", {z, table}, "logits");
  b.emit(Op::cross_entropy, "net", {logits, b.state(targets_home)}, {"lse", "totals"});
  return graph;
}

/// The sum of the losses, in double.
double loss(const std::vector<double>& p) {
  const double* table = p.data();
  const double* w = p.data() + vocab * dim;
  double sum = 0;
  for (std::size_t t = 0; t < seq; ++t) {
    std::array<double, dim> x{};
    for (std::size_t c = 0; c < dim; ++c) x[c] = table[static_cast<std::size_t>(tokens[t]) * dim + c];
    for (int layer = 0; layer < 2; ++layer) {
      std::array<double, dim> next = x;
      for (std::size_t o = 0; o < dim; ++o)
        for (std::size_t c = 0; c < dim; ++c) next[o] += x[c] * w[o * dim + c];
      x = next;
    }
    double normaliser = 0, target = 0;
    for (std::size_t v = 0; v < vocab; ++v) {
      double logit = 0;
      for (std::size_t c = 0; c < dim; ++c) logit += 2 * x[c] * table[v * dim + c];
      normaliser += std::exp(logit);
      if (v == static_cast<std::size_t>(targets[t])) target = logit;
    }
    sum += std::log(normaliser) - target;
  }
  return sum;
}

TEST(Uses, GradientsOfValuesReadSeveralTimesAreTheirSums) {
  const auto world = comm::make_self_world();
  const Deck deck = test::small_deck({});
  runtime::Session session(deck, *world);
  ir::Graph graph = passes::shard(passes::autodiff(forward()), {});
  plan::Plan plan = plan::lower(std::move(graph), exec::scratch_query(session.matmuls()));
  plan::verify(plan);
  session.reserve([&] { return std::vector<const plan::Plan*>{&plan}; });
  const auto upload = [&](const std::string& storage, const void* data, std::size_t bytes) {
    kernels::copy_to_device(session.space(), session.memory().storage(storage), data, bytes);
  };
  const RandomStream random(3, "uses");
  std::vector<float> parameters(static_cast<std::size_t>(unit().elements));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] = 0.4F * static_cast<float>(random.normal(i));
  upload("tokens", tokens.data(), sizeof tokens);
  upload("targets", targets.data(), sizeof targets);
  upload(ops::storage_name(Role::master, unit()), parameters.data(), parameters.size() * sizeof(float));
  session.bind(std::move(plan))->run(exec::Run::full);
  std::vector<float> gradients(parameters.size());
  kernels::copy_to_host(session.space(), gradients.data(),
                        session.memory().storage(ops::storage_name(Role::gradient, unit())),
                        gradients.size() * sizeof(float));

  std::vector<double> at(parameters.begin(), parameters.end());
  constexpr double step = 1e-5;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double middle = at[i];
    at[i] = middle + step;
    const double above = loss(at);
    at[i] = middle - step;
    const double below = loss(at);
    at[i] = middle;
    EXPECT_NEAR(gradients[i], (above - below) / (2 * step), 2e-5) << "element " << i;
  }
}

}  // namespace
}  // namespace weft
