#include "measure/algorithms.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/float8_matmul.hpp"
#include "kernels/memory.hpp"
#include "measure/noise.hpp"
#include "measure/timing.hpp"

namespace weft::measure {
namespace {

/// What one measurement lasts at least: many launches, because a clock and a wait take microseconds.
constexpr double least_s = 2e-3;
/// Another algorithm has to be faster by this share. What is nearer changes from one measurement to the next.
constexpr double gain = 0.01;
constexpr int most_algorithms = 8;

/// The operands of a product.
class Operands {
 public:
  Operands(const Noise& noise, const kernels::Matmul& product)
      : Operands(noise, product.spec(), product.spec().type, product.spec().type) {
    scratch_ = scratch_for(product);
  }
  Operands(const Noise& noise, const kernels::Float8Matmul& product)
      : Operands(noise, product.spec().shape, product.spec().format, DType::e4m3) {
    scales_ = noise.scales(product.spec().shape.rows);
    scratch_ = scratch_for(product);
  }

  void run(kernels::Space& space, kernels::Matmul& product) const {
    product.run(space, a_.data(), b_.data(), c_.data(), scratch_.data());
  }
  void run(kernels::Space& space, kernels::Float8Matmul& product) const {
    const auto* const scales = reinterpret_cast<const float*>(scales_.data());
    product.run(space, a_.data(), scales, b_.data(), scales, c_.data(), scratch_.data());
  }

 private:
  Operands(const Noise& noise, const kernels::MatmulSpec& s, DType a, DType b) {
    const std::int64_t x = s.rows * s.in, w = s.in * s.out, y = s.rows * s.out;
    const bool forward = s.form == kernels::MatmulForm::forward, wgrad = s.form == kernels::MatmulForm::wgrad;
    a_ = noise.buffer(forward ? x : y, a);
    b_ = noise.buffer(wgrad ? x : w, b);
    c_ = noise.buffer(forward ? y : wgrad ? w : x, s.result);
  }

  template <class Product>
  static kernels::Buffer scratch_for(const Product& product) {
    return {product.scratch_bytes(), "weft::measure::algorithms"};
  }

  kernels::Buffer a_, b_, c_;
  kernels::Buffer scales_;  ///< of both operands, where they are in Float8
  kernels::Buffer scratch_;
};

/// The seconds of one product, the least of three measurements.
template <class Product>
double seconds_of_product(kernels::Space& space, Product& product, const Operands& operands) {
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) operands.run(space, product);
    kernels::fence(space);
  };
  run(1);  // libraries load kernels at their first call
  const int times = static_cast<int>(std::clamp(least_s / seconds_of([&] { run(1); }), 1.0, 1000.0));
  std::vector<double> seconds;
  for (int i = 0; i < 3; ++i) seconds.push_back(seconds_of([&] { run(times); }) / times);
  return least(seconds);
}

/// What was measured of a product.
struct Choice {
  double first_s = 0, best_s = 0;
  std::string best;  ///< the fastest algorithm; empty where it is the library's first choice
};

/// Times the product by each algorithm. Nothing where there are no two.
template <class Product>
std::optional<Choice> choose(kernels::Space& space, const Noise& noise, Product& product) {
  const std::vector<std::string> offered = product.algorithms(most_algorithms);
  if (offered.size() < 2) return std::nullopt;
  const std::string name = name_of(product.spec());
  const Operands operands(noise, product);
  Choice choice;
  for (const std::string& text : offered) {
    if (!product.take({{name, text}})) continue;
    const double seconds = seconds_of_product(space, product, operands);
    if (text == offered.front()) choice.first_s = choice.best_s = seconds;
    if (seconds < (1 - gain) * choice.best_s) {
      choice.best_s = seconds;
      choice.best = text;
    }
  }
  product.take({{name, offered.front()}});
  return choice;
}

/// Adds what is measured of each of these products.
template <class Product>
void choose_for(runtime::Session& session, const Noise& noise, const std::vector<Product*>& products,
                std::map<std::string, Choice>& own) {
  for (Product* const product : products)
    if (auto choice = choose(session.space(), noise, *product))
      own.emplace(name_of(product->spec()), *choice);
}

/// Collective: the choices of all ranks by product, of which the first rank that has it decides.
std::map<std::string, Choice> agreed(comm::World& world, const std::map<std::string, Choice>& own) {
  std::string mine, all;
  for (const auto& [name, c] : own) mine += fmt::format("{}\n{} {} {}\n", name, c.first_s, c.best_s, c.best);
  for (const std::string& text : world.gather_strings(mine)) all += text;
  std::map<std::string, Choice> agreed;
  std::istringstream lines(world.broadcast(all, 0));
  for (std::string name; std::getline(lines, name);) {
    Choice c;
    lines >> c.first_s >> c.best_s;
    lines.ignore(1);
    std::getline(lines, c.best);
    agreed.emplace(name, c);
  }
  return agreed;
}

}  // namespace

Algorithms choose_algorithms(runtime::Session& session) {
  const Noise noise(session.space());
  std::map<std::string, Choice> own;
  choose_for(session, noise, session.matmuls().products(), own);
  choose_for(session, noise, session.matmuls().float8_products(), own);
  Algorithms all;
  for (const auto& [product, choice] : agreed(session.world(), own)) {
    ++all.products;
    all.first_s += choice.first_s;
    all.chosen_s += choice.best_s;
    if (!choice.best.empty()) all.chosen.emplace(product, choice.best);
  }
  session.matmuls().take(all.chosen);
  return all;
}

}  // namespace weft::measure
