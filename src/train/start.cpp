#include "train/start.hpp"

#include "base/clock.hpp"
#include "ckpt/manifest.hpp"
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
    if (!deck.model.init.empty())
      comm::agree(world, [&] { start.weights = ckpt::without_links(deck.model.init); });
    start.note = initialise(deck, start.weights, world, state);
    return start;
  }
  start.load_s = seconds_now() - begin;
  const ckpt::RunState& run = loaded->run;
  comm::agree(world, [&] { check_continues(run, deck, data, loaded->path); });
  start.at = {run.step, run.tokens, run.sample};
  start.checkpoint = loaded->path;
  start.resumed = loaded->own;
  start.saved_data = run.data;
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
