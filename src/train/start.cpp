#include "train/start.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "ckpt/load.hpp"
#include "comm/agree.hpp"
#include "train/continuation.hpp"
#include "train/initial_weights.hpp"
#include "train/starting_point.hpp"

namespace weft::train {

Start start_state(const Deck& deck, comm::World& world, runtime::ModelState& state,
                  const std::vector<ckpt::DataFile>& data) {
  const double begin = seconds_now();
  auto loaded = resume(deck, world, state);
  Start start;
  if (!loaded) {
    comm::agree(world, [&] {
      if (!deck.model.init.empty())
        start.weights = ckpt::without_links(deck.model.init);
      else if (world.rank() == 0 && ckpt::holds_checkpoints(deck.run.dir))
        log::warn(
            "{} itself holds a checkpoint, and a run looks in {} alone: it begins with random weights; to "
            "start from that checkpoint, name it as model.init",
            deck.run.dir, checkpoints_dir(deck));
    });
    start.note = initialise(deck, start.weights, world, state);
    return start;
  }
  start.load_s = seconds_now() - begin;
  const ckpt::RunState& run = loaded->run;
  comm::agree(world, [&] {
    check_continues(run, deck, data, loaded->path);
    WEFT_VALIDATE(loaded->own || run.step < deck.run.steps,
                  "{}: {} steps leave nothing to do (checkpoint.resume names {}, which is of step {}); raise "
                  "run.steps, or name an earlier checkpoint",
                  place_of(deck, "run.steps"), deck.run.steps, loaded->path, run.step);
  });
  start.at = {run.step, run.tokens, run.sample};
  start.checkpoint = loaded->path;
  start.resumed = loaded->own;
  start.saved_data = run.data;
  start.saved_deck = run.deck;
  start.damaged = loaded->damaged;
  start.origin = named_origin(deck).empty() ? run.origin : named_origin(deck);
  start.note = changes_since(run, deck, world.size());
  return start;
}

std::string initialise(const Deck& deck, const std::string& weights, comm::World& world,
                       runtime::ModelState& state) {
  if (!weights.empty()) return start_from(deck, weights, world, state);
  state.initialize(static_cast<std::uint64_t>(deck.run.seed), deck.model.init_std, deck.model.layers);
  return {};
}

}  // namespace weft::train
