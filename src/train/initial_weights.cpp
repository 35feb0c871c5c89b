#include "train/initial_weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "ckpt/load.hpp"
#include "comm/agree.hpp"
#include "hf/weights.hpp"
#include "io/named_path.hpp"
#include "runtime/same.hpp"
#include "train/checkpointing.hpp"

namespace weft::train {
namespace {

using FillMaster = std::function<void(const ckpt::StateSlice&)>;

/// Whether the key is a size, without which no weight has a place.
bool is_size(std::string_view key) {
  constexpr std::array<std::string_view, 7> sizes{"model.dim",           "model.layers", "model.heads",
                                                  "model.kv_heads",      "model.ffn",    "model.vocab",
                                                  "model.tie_embeddings"};
  return std::find(sizes.begin(), sizes.end(), key) != sizes.end();
}

bool is_given(const Deck& deck, std::string_view key) {
  return std::any_of(deck.places.begin(), deck.places.end(), [&](const KeyPlace& p) { return p.key == key; });
}

/// The deck's own settings that differ from the weights' model, as ", KEY is HERE instead of THERE".
std::string compare_models(const ModelDeck& theirs, const Deck& deck) {
  Deck there = deck;
  there.model = theirs;
  there.model.init_std = deck.model.init_std;
  there.model.init = deck.model.init;
  if (deck.model.rope_scaling.factor == 1) {  // with a factor of 1 the table's other keys mean nothing
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

/// Fills the state of a new run: its moments are zero, and `fill_master` gets memory for one vector at a
/// time.
void fill_state(runtime::ModelState& state, const FillMaster& fill_master) {
  state.restore([&](std::span<const ckpt::StateSlice> slices, const ckpt::Put& put) {
    std::vector<std::byte> host;
    for (const ckpt::StateSlice& slice : slices) {
      const std::size_t bytes = static_cast<std::size_t>(slice.count) * size_of(slice.dtype);
      ckpt::StateSlice filled = slice;
      if (slice.data == nullptr) {
        host.assign(bytes, std::byte{});
        filled.data = host.data();
      }
      if (slice.role == ckpt::Role::master)
        fill_master(filled);
      else
        std::memset(filled.data, 0, bytes);
      if (slice.data == nullptr) put(slice, 0, slice.count, filled.data);
    }
  });
}

/// Collective: fills the masters from a checkpoint, and returns a line about it.
std::string fill_from_checkpoint(const Deck& deck, const std::string& place, comm::World& world,
                                 runtime::ModelState& state) {
  const ckpt::Hooks hooks = hooks_of(world);
  ckpt::Manifest manifest;
  std::string note;
  comm::agree(world, [&] {
    manifest = ckpt::read_manifest(place, hooks);
    note = compare_models(parse_saved_deck(manifest.run.deck, manifest.dir + "/" + ckpt::manifest_name).model,
                          deck);
  });
  fill_state(state, [](const ckpt::StateSlice&) {});
  comm::agree(world, [&] {
    state.restore([&](std::span<const ckpt::StateSlice> slices, const ckpt::Put& put) {
      std::vector<ckpt::StateSlice> masters;
      std::copy_if(slices.begin(), slices.end(), std::back_inserter(masters),
                   [](const ckpt::StateSlice& s) { return s.role == ckpt::Role::master; });
      ckpt::load(manifest, state.units(), masters, hooks, put);
    });
  });
  return note;
}

/// Collective: fills the masters from a directory of Hugging Face's format, and returns a line about it.
std::string fill_from_hugging_face(const Deck& deck, const std::string& place, comm::World& world,
                                   runtime::ModelState& state) {
  std::optional<hf::Weights> weights;
  std::string note, value;
  comm::agree(world, [&] {
    weights.emplace(place);
    note = compare_models(weights->config().model, deck);
    weights->check(state.units());
    value = fmt::format("{:016x}", weights->fingerprint());
  });
  // The directory is compared over the ranks, because each reads a copy that may be its host's own.
  runtime::check_same(world,
                      {{"model.init", value, fmt::format("{} (fingerprint {})", deck.model.init, value)}},
                      "copy the same weights to all hosts");
  comm::agree(world, [&] {
    fill_state(state, [&](const ckpt::StateSlice& slice) { weights->load(state.units(), {&slice, 1}); });
  });
  return note;
}

}  // namespace

std::string start_from(const Deck& deck, const std::string& place, comm::World& world,
                       runtime::ModelState& state) {
  const std::string& init = deck.model.init;
  bool ours = false;
  comm::agree(world, [&] {
    ours = io::is_there(place + "/" + ckpt::manifest_name);
    if (ours || hf::is_model(place)) return;
    ckpt::check_named(init, place_of(deck, "model.init") + ": ");
    WEFT_VALIDATE(
        false,
        "{}: {} holds no weights (neither {} nor config.json is in it); name a checkpoint, step-N, or a "
        "directory of Hugging Face's",
        place_of(deck, "model.init"), init, ckpt::manifest_name);
  });
  // Rank 0 decides, because file systems may show it late to some ranks.
  ours = !world.broadcast(ours ? "ours" : "", 0).empty();
  const std::string note = ours ? fill_from_checkpoint(deck, place, world, state)
                                : fill_from_hugging_face(deck, place, world, state);
  state.publish();
  return fmt::format("starts from the weights of {}{}", init, note);
}

}  // namespace weft::train
