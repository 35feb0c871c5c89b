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

/// Keys, or tables, whose change is another curve.
constexpr std::array<std::string_view, 5> curve_keys{"run.steps ", "model.", "data.", "optimizer.",
                                                     "precision."};

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
  const std::filesystem::path parent = std::filesystem::absolute(dir).lexically_normal().parent_path();
  return std::filesystem::equivalent(parent, checkpoints_dir(deck), ignored);
}

std::string changes_since(const ckpt::RunState& saved, const Deck& deck) {
  std::string line;
  try {
    for (const std::string& change : changes(parse_deck_text(saved.deck, "the checkpoint's deck"), deck)) {
      const bool counts = std::any_of(curve_keys.begin(), curve_keys.end(),
                                      [&](std::string_view prefix) { return change.starts_with(prefix); });
      if (counts) line += (line.empty() ? "" : ", ") + change;
    }
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
                                 std::int64_t tokens) {
  ckpt::RunState run;
  run.step = step;
  run.tokens = tokens;
  run.sample = step * deck.data.global_batch;
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
