// A model on one rank, with parameters and tokens from the test, and every storage of its plan in reach.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deck/deck.hpp"
#include "runtime/inputs.hpp"
#include "runtime/model_state.hpp"

namespace weft::test {

class OneRank {
 public:
  enum class Program { training, logits };
  /// Makes the plan that `weft train` or `weft sample` would make. A logits plan has one row, whatever
  /// data.batch is.
  OneRank(const Deck& deck, Program program);

  const std::vector<Unit>& units() const { return executor_->plan().graph.units(); }
  /// Sets a parameter. Call publish() after the last one.
  void set_parameter(const std::string& path, std::span<const float> values) {
    state_->set_parameter(path, values);
  }
  void publish() { state_->publish(); }

  /// Runs the plan, with a learning rate of zero, on tokens [rows, seq] at `positions`, or 0 .. seq - 1.
  /// Targets are not read by a logits plan.
  void run(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets = {},
           std::span<const std::int32_t> positions = {});

  /// The logits [seq, vocab] of a logits plan.
  std::vector<float> logits();
  /// The gradient of the loss SUM, in a training plan of one round; of matrices as [out, in].
  std::vector<float> gradient(const Unit& unit, const Parameter& parameter);
  /// The gradient norm, clip scale, mean loss, and token count of a training plan.
  std::vector<float> report();

 private:
  std::vector<float> read(std::string_view storage, std::int64_t first, std::int64_t count);

  Deck deck_;
  std::unique_ptr<comm::World> world_;
  runtime::Session session_;
  runtime::MicrobatchBuffers buffers_;
  std::unique_ptr<exec::Executor> executor_;
  std::unique_ptr<runtime::ModelState> state_;
};

}  // namespace weft::test
