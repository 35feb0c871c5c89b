#include "train/initial_weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "ckpt/load.hpp"
#include "hf/weights.hpp"
#include "train/agree.hpp"

namespace weft::train {
namespace {

using Fill = std::function<void(std::span<ckpt::StateSlice>)>;

/// Keys without which no weight has a place.
bool is_size(std::string_view key) {
  constexpr std::array<std::string_view, 7> sizes{"model.dim",           "model.layers", "model.heads",
                                                  "model.kv_heads",      "model.ffn",    "model.vocab",
                                                  "model.tie_embeddings"};
  return std::find(sizes.begin(), sizes.end(), key) != sizes.end();
}

bool is_given(const Deck& deck, std::string_view key) {
  return std::any_of(deck.places.begin(), deck.places.end(), [&](const KeyPlace& p) { return p.key == key; });
}

/// What the deck has set otherwise than the weights' own model, as ", KEY is HERE instead of THERE".
std::string compare_models(const ModelDeck& theirs, const Deck& deck) {
  Deck there = deck;
  there.model = theirs;
  there.model.init_std = deck.model.init_std;
  there.model.init = deck.model.init;
  if (deck.model.rope_scaling.factor == 1) {  // then its other keys mean nothing
    there.model.rope_scaling = deck.model.rope_scaling;
    there.model.rope_scaling.factor = theirs.rope_scaling.factor;
  }
  std::string note;
  for (const KeyChange& c : changes(there, deck)) {
    WEFT_VALIDATE(!is_size(c.key),
                  "{} is {}, and {} in {} (the weights of model.init have other shapes); use {}",
                  place_of(deck, c.key), c.to, c.from, deck.model.init, c.from);
    WEFT_VALIDATE(
        is_given(deck, c.key),
        "{} is {} by default, and {} in {} (the weights were trained with that); set one of the two",
        place_of(deck, c.key), c.to, c.from, deck.model.init);
    note += fmt::format(", {} is {} instead of {}", c.key, c.to, c.from);
  }
  return note;
}

/// Moments of a new run are zero.
void fill_state(ModelState& state, const Fill& fill_masters) {
  state.restore([&](std::span<ckpt::StateSlice> slices) {
    for (ckpt::StateSlice& slice : slices) {
      if (slice.role == ckpt::Role::master)
        fill_masters({&slice, 1});
      else
        std::memset(slice.data, 0, static_cast<std::size_t>(slice.count) * size_of(slice.dtype));
    }
  });
}

std::string fill_from_checkpoint(const Deck& deck, ModelState& state) {
  const ckpt::Manifest manifest = ckpt::read_manifest(deck.model.init);
  const std::string note = compare_models(
      parse_deck_text(manifest.run.deck, manifest.dir + "/" + ckpt::manifest_name).model, deck);
  fill_state(state, [&](std::span<ckpt::StateSlice> slices) { ckpt::load(manifest, state.units(), slices); });
  return note;
}

std::string fill_from_hugging_face(const Deck& deck, ModelState& state) {
  const hf::Weights weights(deck.model.init);
  const std::string note = compare_models(weights.config().model, deck);
  weights.check(state.units());
  fill_state(state, [&](std::span<ckpt::StateSlice> slices) { weights.load(state.units(), slices); });
  return note;
}

}  // namespace

std::string start_from(const Deck& deck, comm::World& world, ModelState& state) {
  const std::string& init = deck.model.init;
  std::string note;
  agree(world, [&] {
    const bool ours = std::filesystem::exists(init + "/" + ckpt::manifest_name);
    WEFT_VALIDATE(
        ours || hf::is_model(init),
        "{}: {} holds no weights (neither {} nor config.json is in it); name a checkpoint, step-N, or a "
        "directory of Hugging Face's",
        place_of(deck, "model.init"), init, ckpt::manifest_name);
    note = ours ? fill_from_checkpoint(deck, state) : fill_from_hugging_face(deck, state);
  });
  state.publish();
  return fmt::format("starts from the weights of {}{}", init, note);
}

}  // namespace weft::train
