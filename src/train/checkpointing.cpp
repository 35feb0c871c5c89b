#include "train/checkpointing.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "ckpt/load.hpp"
#include "train/agree.hpp"
#include "train/programs.hpp"

namespace weft::train {
namespace {

/// Whether another value of the key, "table.name", is another curve of training losses.
bool changes_curve(std::string_view key) {
  constexpr std::array<std::string_view, 4> tables{"model.", "data.", "optimizer.", "precision."};
  constexpr std::array<std::string_view, 2> without{"model.init", "data.valid"};  // and what begins so
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

std::string checkpoints_dir(const Deck& deck) {
  return deck.run.dir + "/checkpoints";
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
    for (const KeyChange& c : changes(parse_saved_deck(saved.deck, "the checkpoint's deck"), deck))
      if (changes_curve(c.key))
        line += fmt::format("{}{} {} -> {}", line.empty() ? "" : ", ", c.key, c.from, c.to);
  } catch (const Error&) {
    return "the checkpoint's deck cannot be read by this version; its settings are not compared";
  }
  return line.empty() ? line : "settings changed since the checkpoint: " + line;
}

namespace {

/// Where the run may go on from, the first choice first; on all ranks.
std::vector<std::string> candidates(const Deck& deck, comm::World& world) {
  const std::string& resume = deck.checkpoint.resume;
  if (resume == "never") return {};
  if (resume != "auto") return {resume};
  std::string lines;
  agree(world, [&] {
    if (world.rank() == 0)
      for (const std::string& path : ckpt::find_complete(checkpoints_dir(deck))) lines += path + '\n';
  });
  lines = world.broadcast(lines, 0);
  std::vector<std::string> paths;
  for (std::size_t begin = 0, end; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1)
    paths.push_back(lines.substr(begin, end - begin));
  return paths;
}

ckpt::Manifest open(const std::string& dir, const Deck& deck, comm::World& world) {
  ckpt::Manifest manifest;
  agree(world, [&] {
    manifest = ckpt::read_manifest(dir, hooks_of(world));
    ckpt::check_model(manifest, model_key(deck));
  });
  return manifest;
}

void fill(const ckpt::Manifest& manifest, comm::World& world, ModelState& state) {
  agree(world, [&] {
    state.restore([&](std::span<const ckpt::StateSlice> slices, const ckpt::Put& put) {
      ckpt::load(manifest, state.units(), slices, hooks_of(world), put);
    });
  });
  state.publish();
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
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const ckpt::Manifest manifest = open(paths[i], deck, world);
    try {
      fill(manifest, world, state);
    } catch (const Error& e) {  // on all ranks
      if (i + 1 == paths.size()) throw;
      const std::string_view what = e.what();
      if (world.rank() == 0) log::warn("{}; going back to {}", what.substr(0, what.find('\n')), paths[i + 1]);
      continue;
    }
    return Resumed{paths[i], manifest.run};
  }
  return std::nullopt;
}

std::unique_ptr<ckpt::Save> begin_save(const Deck& deck, Session& session, const std::vector<Unit>& units,
                                       std::vector<ckpt::StateSlice> slices, const Position& at) {
  ckpt::RunState run;
  run.step = at.step;
  run.tokens = at.tokens;
  run.sample = at.sample;
  run.seed = static_cast<std::uint64_t>(deck.run.seed);
  run.deck = print_deck(deck);
  run.model_key = model_key(deck);
  run.weft_version = weft_version();
  run.git_hash = weft_git_hash();
  run.world = session.world().size();
  run.mode = name_of(deck.parallel.mode);
  ckpt::SaveOptions options;
  options.keep = deck.checkpoint.keep;
  options.keep_every = deck.checkpoint.keep_every;
  options.alignment = static_cast<std::int64_t>(deck.checkpoint.alignment);
  options.direct_io = deck.checkpoint.direct_io;
  return std::make_unique<ckpt::Save>(checkpoints_dir(deck), run, units, std::move(slices),
                                      hooks_of(session.world()), options);
}

}  // namespace weft::train
