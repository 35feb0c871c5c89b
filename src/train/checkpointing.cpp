#include "train/checkpointing.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/check.hpp"
#include "base/version.hpp"
#include "ckpt/load.hpp"
#include "train/agree.hpp"
#include "train/programs.hpp"

namespace weft::train {
namespace {

/// Whether another value of the key, "table.name", is another curve of training losses.
bool changes_curve(std::string_view key) {
  constexpr std::array<std::string_view, 4> tables{"model.", "data.", "optimizer.", "precision."};
  constexpr std::array<std::string_view, 2> without{"model.init_std", "data.valid"};  // and data.valid_...
  const auto begins = [key](std::string_view prefix) { return key.starts_with(prefix); };
  return key == "run.steps" || (std::any_of(tables.begin(), tables.end(), begins) &&
                                std::none_of(without.begin(), without.end(), begins));
}

ckpt::Hooks hooks(comm::World& world) {
  ckpt::Hooks h;
  h.rank = world.rank();
  h.size = world.size();
  h.barrier = [&world] { world.barrier(); };
  h.gather = [&world](const std::string& text) { return world.gather_strings(text); };
  h.all_true = [&world](bool mine) {
    std::int64_t failures = mine ? 0 : 1;
    world.all_reduce_sum(std::span(&failures, 1));
    return failures == 0;
  };
  return h;
}

}  // namespace

std::string model_key(const Deck& deck) {
  return model::key(spec_of(deck));
}

std::string checkpoints_dir(const Deck& deck) {
  return deck.run.dir + "/checkpoints";
}

std::optional<std::string> find_checkpoint(const Deck& deck, comm::World& world) {
  const std::string& resume = deck.checkpoint.resume;
  if (resume == "never") return std::nullopt;
  std::string found;
  agree(world, [&] {
    if (world.rank() == 0)
      found = resume == "auto" ? ckpt::find_latest(checkpoints_dir(deck)).value_or("") : resume;
  });
  found = world.broadcast(found, 0);
  return found.empty() ? std::nullopt : std::optional(found);
}

bool is_own_checkpoint(const Deck& deck, const std::string& dir) {
  std::error_code ignored;
  std::filesystem::path path = std::filesystem::absolute(dir).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "step-00000005/"
  return std::filesystem::equivalent(path.parent_path(), checkpoints_dir(deck), ignored);
}

std::string changes_since(const ckpt::RunState& saved, const Deck& deck) {
  std::string line;
  try {
    for (const KeyChange& c : changes(parse_deck_text(saved.deck, "the checkpoint's deck"), deck))
      if (changes_curve(c.key))
        line += fmt::format("{}{} {} -> {}", line.empty() ? "" : ", ", c.key, c.from, c.to);
  } catch (const Error&) {
    return "the checkpoint's deck cannot be read by this version; its settings are not compared";
  }
  return line.empty() ? line : "settings changed since the checkpoint: " + line;
}

ckpt::RunState load_checkpoint(const std::string& dir, const Deck& deck, comm::World& world,
                               ModelState& state) {
  ckpt::Manifest manifest;
  agree(world, [&] {
    manifest = ckpt::read_manifest(dir);
    ckpt::check_model(manifest, model_key(deck));
    state.restore([&](std::span<ckpt::StateSlice> slices) { ckpt::load(manifest, state.units(), slices); });
  });
  state.publish();
  return manifest.run;
}

ckpt::SaveReport save_checkpoint(const Deck& deck, Session& session, ModelState& state, std::int64_t step,
                                 std::int64_t tokens, std::int64_t sample) {
  ckpt::RunState run;
  run.step = step;
  run.tokens = tokens;
  run.sample = sample;
  run.seed = static_cast<std::uint64_t>(deck.run.seed);
  run.deck = print_deck(deck);
  run.model_key = model_key(deck);
  run.weft_version = weft_version();
  run.git_hash = weft_git_hash();
  run.world = session.world().size();
  run.mode = name_of(deck.parallel.mode);
  const ModelState::Snapshot snapshot = state.snapshot();
  ckpt::SaveOptions options;
  options.keep = deck.checkpoint.keep;
  return ckpt::save(checkpoints_dir(deck), run, state.units(), snapshot.slices, hooks(session.world()),
                    options);
}

}  // namespace weft::train
