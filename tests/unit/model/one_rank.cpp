#include "unit/model/one_rank.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/step_block.hpp"
#include "compile/programs.hpp"
#include "exec/scratch.hpp"
#include "ops/storages.hpp"
#include "passes/passes.hpp"

namespace weft::test {

OneRank::OneRank(const Deck& deck, Program program)
    : deck_(deck),
      world_(comm::make_self_world()),
      session_(deck_, *world_),
      buffers_(program == Program::logits ? 1 : deck.data.batch, deck.data.seq) {
  const plan::ScratchQuery scratch = exec::scratch_query(session_.matmuls());
  plan::Plan plan = program == Program::logits
                        ? compile::logits_plan(deck_, session_.mesh(), 0, scratch)
                        : compile::training_plan(deck_, session_.mesh(), scratch,
                                                 compile::pass_options(deck_, session_.mesh()));
  session_.reserve([&] { return std::vector<const plan::Plan*>{&plan}; });
  executor_ = session_.bind(std::move(plan));
  state_ = std::make_unique<runtime::ModelState>(session_, executor_->plan());
  runtime::upload_rope_table(session_, deck_);
}

void OneRank::run(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
                  std::span<const std::int32_t> positions) {
  WEFT_EXPECT(tokens.size() == buffers_.tokens.size());
  std::copy(tokens.begin(), tokens.end(), buffers_.tokens.begin());
  std::copy(targets.begin(), targets.end(), buffers_.targets.begin());
  for (std::size_t i = 0; i < buffers_.positions.size(); ++i)
    buffers_.positions[i] = positions.empty()
                                ? static_cast<std::int32_t>(i % static_cast<std::size_t>(deck_.data.seq))
                                : positions[i];
  buffers_.begin_step();
  buffers_.upload(session_, 0);
  const StepBlock block;
  if (session_.memory().has(passes::step_name))
    kernels::copy_to_device(session_.space(), session_.memory().storage(passes::step_name), &block,
                            sizeof block);
  executor_->run(exec::Run::full);
}

std::vector<float> OneRank::logits() {
  return read(model::logits_name, 0, deck_.data.seq * deck_.model.vocab);
}

std::vector<float> OneRank::gradient(const Unit& unit, const Parameter& parameter) {
  const std::vector<float> stored =
      read(ops::storage_name(ir::Role::gradient, unit), parameter.offset, element_count(parameter.shape));
  return ckpt::as_out_in(parameter, stored);
}

std::vector<float> OneRank::report() {
  return read(passes::report_name, 0, 4);
}

std::vector<float> OneRank::read(std::string_view storage, std::int64_t first, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  kernels::copy_to_host(session_.space(), values.data(), session_.memory().storage(storage) + first * 4,
                        values.size() * sizeof(float));
  return values;
}

}  // namespace weft::test
