#include "train/checkpointing.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "ckpt/file.hpp"
#include "ckpt/load.hpp"
#include "train/agree.hpp"
#include "train/programs.hpp"
#include "train/starting_point.hpp"

namespace weft::train {
namespace {

/// Whether another value of the key, "table.name", is another curve of training losses.
bool changes_curve(std::string_view key) {
  constexpr std::array<std::string_view, 4> tables{"model.", "data.", "optimizer.", "precision."};
  // keys, and beginnings of keys, that leave the curve as it is
  constexpr std::array<std::string_view, 3> without{"model.init", "data.valid", "data.allow_change"};
  const auto begins = [key](std::string_view prefix) { return key.starts_with(prefix); };
  return key == "run.steps" || (std::any_of(tables.begin(), tables.end(), begins) &&
                                std::none_of(without.begin(), without.end(), begins));
}

}  // namespace

ckpt::Hooks hooks_of(comm::World& world) {
  ckpt::Hooks h;
  h.rank = world.rank();
  h.size = world.size();
  h.barrier = [&world] { world.barrier(); };
  h.broadcast = [&world](std::string text) { return world.broadcast(std::move(text), 0); };
  h.gather = [&world](const std::string& text) { return world.gather_strings(text); };
  h.all_true = [&world](bool mine) {
    std::int64_t failures = mine ? 0 : 1;
    world.all_reduce_sum(std::span(&failures, 1));
    return failures == 0;
  };
  return h;
}

std::string model_key(const Deck& deck) {
  return model::key(spec_of(deck));
}

std::string changes_since(const ckpt::RunState& saved, const Deck& deck) {
  std::string line;
  try {
    for (const KeyChange& c : changes(parse_saved_deck(saved.deck, "the checkpoint's deck"), deck))
      if (changes_curve(c.key))
        line += fmt::format("{}{} {} -> {}", line.empty() ? "" : ", ", c.key, c.from, c.to);
  } catch (const Error&) {
    return "the checkpoint's deck cannot be read by this version; its settings are not compared";
  }
  return line.empty() ? line : "settings changed since the checkpoint: " + line;
}

namespace {

ckpt::Manifest open(const std::string& dir, const Deck& deck, comm::World& world) {
  ckpt::Manifest manifest;
  agree(world, [&] {
    manifest = ckpt::read_manifest(dir, hooks_of(world));
    ckpt::check_model(manifest, model_key(deck));
  });
  return manifest;
}

/// Throws on all ranks: Error(environment) where storage did not answer on one of them, which outranks
/// Error(bad_checkpoint), because it says nothing of the checkpoint.
void fill(const ckpt::Manifest& manifest, comm::World& world, ModelState& state) {
  agree(world, [&] {
    try {
      state.restore([&](std::span<const ckpt::StateSlice> slices, const ckpt::Put& put) {
        ckpt::load(manifest, state.units(), slices, hooks_of(world), put);
      });
    } catch (const ckpt::Unreadable& e) {
      throw Error(ExitCode::environment, e.what());
    }
  });
  state.publish();
}

/// The run's own checkpoints that proved damaged go out of the way of later saves and starts.
void set_aside(const std::vector<std::string>& damaged, const Deck& deck, comm::World& world) {
  agree(world, [&] {
    if (world.rank() != 0) return;
    for (const std::string& path : damaged)
      if (is_own_checkpoint(deck, path))
        log::warn("the damaged checkpoint {} is now {}", path, ckpt::set_aside(path));
  });
}

std::string first_line(const Error& e) {
  const std::string what = e.what();
  return what.substr(0, what.find('\n'));
}

}  // namespace

ckpt::RunState load_checkpoint(const std::string& dir, const Deck& deck, comm::World& world,
                               ModelState& state) {
  const ckpt::Manifest manifest = open(dir, deck, world);
  fill(manifest, world, state);
  return manifest.run;
}

std::optional<Resumed> resume(const Deck& deck, comm::World& world, ModelState& state) {
  const std::vector<std::string> paths = candidates(deck, world);
  std::vector<std::string> damaged;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const ckpt::Manifest manifest = open(paths[i], deck, world);
    try {
      fill(manifest, world, state);
    } catch (const Error& e) {  // on all ranks
      if (e.code() == ExitCode::environment) throw Error(ExitCode::bad_checkpoint, e.what());
      if (e.code() != ExitCode::bad_checkpoint || i + 1 == paths.size()) throw;
      if (world.rank() == 0) log::warn("{}; going back to {}", first_line(e), paths[i + 1]);
      damaged.push_back(paths[i]);
      continue;
    }
    set_aside(damaged, deck, world);
    return Resumed{paths[i], manifest.run};
  }
  return std::nullopt;
}

ckpt::RunState describe_run(const Deck& deck, const comm::World& world) {
  ckpt::RunState run;
  run.seed = static_cast<std::uint64_t>(deck.run.seed);
  run.deck = print_deck(deck);
  run.model_key = model_key(deck);
  run.weft_version = weft_version();
  run.git_hash = weft_git_hash();
  run.world = world.size();
  run.mode = name_of(deck.parallel.mode);
  return run;
}

std::unique_ptr<ckpt::Save> begin_save(const Deck& deck, Session& session, ckpt::RunState run, OwnState state,
                                       const Position& at) {
  run.step = at.step;
  run.tokens = at.tokens;
  run.sample = at.sample;
  ckpt::SaveOptions options;
  options.keep = deck.checkpoint.keep;
  options.keep_every = deck.checkpoint.keep_every;
  options.alignment = static_cast<std::int64_t>(deck.checkpoint.alignment);
  options.direct_io = deck.checkpoint.direct_io;
  options.await_slices = std::move(state.await_slices);
  return std::make_unique<ckpt::Save>(checkpoints_dir(deck), run, state.units, std::move(state.slices),
                                      hooks_of(session.world()), options);
}

}  // namespace weft::train
