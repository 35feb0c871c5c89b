#include "train/checkpointing.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/device.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "ckpt/load.hpp"
#include "ckpt/stored_files.hpp"
#include "comm/agree.hpp"
#include "compile/programs.hpp"
#include "io/file.hpp"
#include "train/starting_point.hpp"

namespace weft::train {
namespace {

/// Whether any other value of the key "table.name" leads to another curve of training losses.
bool changes_curve(std::string_view key) {
  constexpr std::array<std::string_view, 4> tables{"model.", "data.", "optimizer.", "precision."};
  // These keys, and keys that begin so, leave the curve as it is.
  constexpr std::array<std::string_view, 3> without{"model.init", "data.valid", "data.allow_change"};
  const auto begins = [key](std::string_view prefix) { return key.starts_with(prefix); };
  // A GPU's profile names the algorithms of products.
  return key == "run.steps" || key == "schedule.accumulate" ||
         (key == "schedule.profile" && !device_is_host()) ||
         (std::any_of(tables.begin(), tables.end(), begins) &&
          std::none_of(without.begin(), without.end(), begins));
}

/// Whether the decks disable other passes of those that lead to another curve.
bool disables_others(const Deck& from, const Deck& to) {
  constexpr std::array<std::string_view, 2> passes{"fuse", "head"};
  return std::any_of(passes.begin(), passes.end(), [&](std::string_view pass) {
    return compile::is_disabled(from, pass) != compile::is_disabled(to, pass);
  });
}

/// The axes that have another number of ranks, and lead to another curve by that, as "NAME 1 -> 2".
std::vector<std::string> changed_axes(const Deck& deck, const Mesh& from, const Mesh& to) {
  std::vector<std::string> changed;
  for (const std::string_view axis : {replica_axis, context_axis, tensor_axis, pipe_axis}) {
    const int before = from.size(axis), now = to.size(axis);
    // A pipe adds the gradients of a tied table that its first and its last stage have.
    const bool sums = axis != pipe_axis || (deck.model.tie_embeddings && (before == 1) != (now == 1));
    if (before != now && sums) changed.push_back(fmt::format("{} {} -> {}", axis, before, now));
  }
  return changed;
}

}  // namespace

ckpt::Hooks hooks_of(comm::World& world) {
  ckpt::Hooks h;
  h.rank = world.rank();
  h.size = world.size();
  h.barrier = [&world] { world.barrier(); };
  h.broadcast = [&world](std::string text) { return world.broadcast(std::move(text), 0); };
  h.gather = [&world](const std::string& text) { return world.gather_strings(text); };
  h.all_true = [&world](bool mine) { return comm::on_all_ranks(world, mine); };
  return h;
}

std::string model_key(const Deck& deck) {
  return model::key(compile::spec_of(deck));
}

std::string changes_since(const ckpt::RunState& saved, const Deck& deck, int world) {
  std::vector<std::string> changed;
  try {
    const Deck then = parse_saved_deck(saved.deck, "the checkpoint's deck");
    for (const KeyChange& c : changes(then, deck))
      if (changes_curve(c.key) || (c.key == "schedule.disable" && disables_others(then, deck)))
        changed.push_back(fmt::format("{} {} -> {}", c.key, c.from, c.to));
    for (const std::string& axis :
         changed_axes(deck, resolve_mesh(then, saved.world), resolve_mesh(deck, world)))
      changed.push_back("parallel.mesh " + axis);
  } catch (const Error&) {
    return "the checkpoint's deck cannot be read by this version; its settings are not compared";
  }
  return changed.empty() ? ""
                         : fmt::format("settings changed since the checkpoint: {}", fmt::join(changed, ", "));
}

namespace {

ckpt::Manifest open(const std::string& dir, const Deck& deck, comm::World& world) {
  ckpt::Manifest manifest;
  comm::agree(world, [&] {
    manifest = ckpt::read_manifest(dir, hooks_of(world));
    ckpt::check_model(manifest, model_key(deck));
  });
  return manifest;
}

/// The error that a checkpoint's bytes are not those that were saved.
class Damaged : public Error {
 public:
  explicit Damaged(const Error& e) : Error(e.code(), e.what()) {}
};

/// What keeps a rank from loading. Where ranks have different problems, the last of these values counts. Only
/// `damaged` says that the checkpoint is of no use to anybody.
enum class Problem : std::uint8_t { none, damaged, other };

/// Loads the state from the checkpoint. On an error it throws on all ranks: Damaged, or an Error that says
/// nothing of the checkpoint's bytes.
void fill(const ckpt::Manifest& manifest, comm::World& world, runtime::ModelState& state) {
  Problem problem = Problem::none;
  try {
    comm::agree(world, [&] {
      try {
        state.restore([&](std::span<const ckpt::StateSlice> slices, const ckpt::Put& put) {
          ckpt::load(manifest, state.units(), slices, hooks_of(world), put);
        });
      } catch (const std::exception& e) {
        const bool bytes = exit_code_of(e) == ExitCode::bad_checkpoint &&
                           dynamic_cast<const io::Unreadable*>(&e) == nullptr &&
                           dynamic_cast<const ckpt::Mismatch*>(&e) == nullptr;
        problem = bytes ? Problem::damaged : Problem::other;
        throw;
      }
    });
  } catch (const Error& e) {
    auto worst = static_cast<double>(problem);
    world.all_reduce_max(std::span(&worst, 1));
    if (static_cast<Problem>(worst) == Problem::damaged) throw Damaged(e);
    throw;
  }
  state.publish();
}

std::string first_line(const Error& e) {
  const std::string what = e.what();
  return what.substr(0, what.find('\n'));
}

/// A message without its advice: "PROBLEM (REASON)" of "PROBLEM (REASON); ADVICE".
std::string without_advice(const std::string& line) {
  const auto end = line.rfind("); ");
  return end == std::string::npos ? line : line.substr(0, end + 1);
}

/// A candidate whose files are all there with their sizes.
struct Opened {
  Candidate candidate;
  ckpt::Manifest manifest;
};

/// Takes the candidates one after the other. next() and check_beginning() are collective.
class Turns {
 public:
  Turns(const Deck& deck, comm::World& world)
      : deck_(deck), world_(world), candidates_(train::candidates(deck, world)) {}

  /// The next candidate; nothing behind the last. Those of the run's own that lack a file are passed over,
  /// and are damaged.
  std::optional<Opened> next() {
    while (taken_ < candidates_.all.size()) {
      Opened opened{candidates_.all[taken_++], {}};
      const Candidate& candidate = opened.candidate;
      if (candidate.named && !candidate.own) check_beginning();
      if (candidate.named)
        comm::agree(world_, [&] {
          if (world_.rank() == 0)
            ckpt::check_named(candidate.path, place_of(deck_, "checkpoint.resume") + ": ");
        });
      std::string problem;
      comm::agree(world_, [&] { opened.manifest = ckpt::read_manifest(candidate.path, hooks_of(world_)); });
      comm::agree(world_, [&] {
        problem = ckpt::look_at_files(opened.manifest, hooks_of(world_));
        if (candidate.named && !problem.empty())
          throw Error(ExitCode::bad_checkpoint, fmt::format("{}: {}", opened.manifest.dir, problem));
      });
      if (problem.empty()) return opened;
      if (world_.rank() == 0) log::warn("a checkpoint is passed over: {}", problem);
      is_damaged(candidate, problem);
    }
    return std::nullopt;
  }
  /// Notes that a candidate is damaged, and a line about it.
  void is_damaged(const Candidate& candidate, std::string problem) {
    if (candidate.own) damaged_.push_back(candidate.path);
    auto& lines = candidates_.damaged;
    if (world_.rank() == 0) lines.insert(lines.begin() + noted_++, std::move(problem));
  }
  /// The run's own among the damaged ones.
  const std::vector<std::string>& damaged() const { return damaged_; }
  void check_beginning() {
    comm::agree(world_, [&] {
      if (world_.rank() == 0) train::check_beginning(deck_, candidates_.damaged);
    });
  }

 private:
  const Deck& deck_;
  comm::World& world_;
  Candidates candidates_;
  std::size_t taken_ = 0;
  std::ptrdiff_t noted_ = 0;  ///< lines about candidates that were taken; they stand before the others
  std::vector<std::string> damaged_;
};

}  // namespace

ckpt::RunState load_checkpoint(const std::string& dir, const Deck& deck, comm::World& world,
                               runtime::ModelState& state) {
  const ckpt::Manifest manifest = open(dir, deck, world);
  fill(manifest, world, state);
  return manifest.run;
}

std::optional<Resumed> resume(const Deck& deck, comm::World& world, runtime::ModelState& state) {
  Turns turns(deck, world);
  std::optional<Opened> now = turns.next();
  if (!now) turns.check_beginning();
  while (now) {
    try {
      comm::agree(world, [&] { ckpt::check_model(now->manifest, model_key(deck)); });
      fill(now->manifest, world, state);
    } catch (const Damaged& e) {  // thrown on all ranks
      turns.is_damaged(now->candidate, without_advice(first_line(e)));
      std::optional<Opened> next = turns.next();
      if (!next) throw;
      if (world.rank() == 0) log::warn("{}; going back to {}", first_line(e), next->candidate.path);
      now = std::move(next);
      continue;
    }
    return Resumed{now->manifest.dir, now->candidate.own, now->manifest.run, turns.damaged()};
  }
  return std::nullopt;
}

void set_aside(const std::vector<std::string>& damaged, comm::World& world) {
  comm::agree(world, [&] {
    if (world.rank() != 0) return;
    for (const std::string& path : damaged)
      log::warn("the damaged checkpoint {} is now {}", path, ckpt::set_aside(path));
  });
}

std::string give_name_back(const std::string& checkpoint, comm::World& world) {
  std::string path;
  comm::agree(world, [&] {
    if (world.rank() == 0) path = ckpt::give_name_back(checkpoint);
  });
  return world.broadcast(std::move(path), 0);
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

std::unique_ptr<ckpt::Save> begin_save(const Deck& deck, runtime::Session& session, ckpt::RunState run,
                                       OwnState state, const Position& at, Earlier earlier) {
  run.step = at.step;
  run.tokens = at.tokens;
  run.sample = at.sample;
  ckpt::SaveOptions options;
  options.keep = earlier == Earlier::stay ? 0 : deck.checkpoint.keep;  // 0 keeps all
  options.keep_every = deck.checkpoint.keep_every;
  options.alignment = static_cast<std::int64_t>(deck.checkpoint.alignment);
  options.direct_io = deck.checkpoint.direct_io;
  options.await_slices = std::move(state.await_slices);
  return std::make_unique<ckpt::Save>(checkpoints_dir(deck), run, state.units, std::move(state.slices),
                                      hooks_of(session.world()), options);
}

}  // namespace weft::train
