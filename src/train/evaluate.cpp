#include "train/evaluate.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "comm/agree.hpp"
#include "compile/programs.hpp"
#include "data/validation_source.hpp"
#include "exec/scratch.hpp"
#include "runtime/memory_usage.hpp"
#include "runtime/planned_memory.hpp"
#include "runtime/preflight.hpp"
#include "runtime/session.hpp"
#include "train/checkpointed_model.hpp"

namespace weft::train {
namespace {

/// The deck of the run that saved the checkpoint, with the options and a mesh for these ranks.
Deck deck_for(const EvaluateOptions& options, const ckpt::Manifest& manifest, int ranks) {
  Deck deck = parse_saved_deck(manifest.run.deck, manifest.dir);
  const int groups = ranks / group_size(options.tensor, options.context, ranks);
  deck.parallel.mesh = {{std::string(data_axis), groups},
                        {std::string(context_axis), options.context},
                        {std::string(tensor_axis), options.tensor}};
  deck.pipeline = {};
  if (options.batch > 0) deck.data.batch = options.batch;
  // Messages about these keys name the options that set them.
  std::erase_if(deck.places, [](const KeyPlace& given) {
    return given.key == "parallel.mesh" || given.key == "data.valid";
  });
  deck.places.push_back({"parallel.mesh", "--tensor, --context"});
  deck.places.push_back({"data.valid", "--data"});
  if (options.memory_limit) {
    deck.run.memory_limit = *options.memory_limit;
    std::erase_if(deck.places, [](const KeyPlace& given) { return given.key == "run.memory_limit"; });
    deck.places.push_back({"run.memory_limit", "--memory-limit"});
  }
  resolve_mesh(deck, ranks);  // so that all ranks refuse it by one line
  return deck;
}

/// Collective: the plan of the evaluation. Throws Error(bad_input) where there is too little memory for it.
plan::Plan plan_that_fits(const Deck& deck, runtime::Session& session) {
  comm::World& world = session.world();
  plan::Plan plan;
  comm::agree(world, [&] {
    plan = compile::evaluation_plan(deck, session.mesh(), exec::scratch_query(session.matmuls()),
                                    compile::pass_options(deck, session.mesh()));
  });
  runtime::trim_heap();
  const std::string needs_less = "use more ranks that share the model, or a smaller --batch";
  runtime::check_memory(
      deck, runtime::planned_evaluation(deck, plan, runtime::held_bytes(world), world.node_size()),
      {.over_limit = [&] { return needs_less + ", or raise --memory-limit"; }, .too_little = needs_less},
      world);
  return plan;
}

}  // namespace

Evaluation evaluate(const EvaluateOptions& options, comm::World& world,
                    const std::function<void(const std::exception&)>& on_error) {
  const ckpt::Manifest manifest = choose_checkpoint(options.checkpoint, world);
  Deck deck;
  comm::agree(world, [&] { deck = deck_for(options, manifest, world.size()); });
  std::optional<data::Sequences> sequences;
  comm::agree(world, [&] {
    sequences.emplace(runtime::open_sequences(deck, options.data, "data.valid"));
    // No more rows are computed than there are sequences.
    const std::int64_t all =
        options.sequences > 0 ? std::min(options.sequences, sequences->count()) : sequences->count();
    const std::int64_t groups = world.size() / group_size(options.tensor, options.context, world.size());
    deck.data.batch = std::min(deck.data.batch, (all + groups - 1) / groups);
  });
  runtime::Session session(deck, world);
  std::unique_ptr<exec::Executor> executor;
  try {
    load_model(
        session, deck, manifest, [&] { return plan_that_fits(deck, session); }, executor);
    data::ValidationSource source(std::move(*sequences), deck.data.batch, options.sequences);
    Validation validation(session, *executor, std::move(source), deck.data.batch, deck.data.seq);
    return {manifest.dir, manifest.run.step, validation.run()};
  } catch (const std::exception& e) {
    if (on_error) on_error(e);
    throw;
  }
}

}  // namespace weft::train
