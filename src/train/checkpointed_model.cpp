#include "train/checkpointed_model.hpp"

#include <span>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "ckpt/load.hpp"
#include "comm/agree.hpp"
#include "compile/programs.hpp"
#include "io/file.hpp"
#include "runtime/inputs.hpp"
#include "runtime/model_state.hpp"
#include "train/checkpointing.hpp"

namespace weft::train {
namespace {

std::string resolve_checkpoint(const std::string& path) {
  if (io::file_bytes(path + "/" + ckpt::manifest_name)) return path;
  const auto newest = ckpt::find_latest(path);
  if (!newest) ckpt::check_named(path, "--checkpoint: ");
  WEFT_VALIDATE(newest.has_value(),
                "{}: no checkpoint here (no {} in it, and no whole step-N below it); give a checkpoint or a "
                "run's checkpoints directory",
                path, ckpt::manifest_name);
  return *newest;
}

}  // namespace

ckpt::Manifest choose_checkpoint(const std::string& path, comm::World& world) {
  std::string chosen;
  comm::agree(world, [&] {
    if (world.rank() == 0) chosen = resolve_checkpoint(path);
  });
  chosen = world.broadcast(chosen, 0);
  ckpt::Manifest manifest;
  comm::agree(world, [&] { manifest = ckpt::read_manifest(chosen, hooks_of(world)); });
  return manifest;
}

int group_size(int tensor, int context, int ranks) {
  const std::int64_t group = std::int64_t{tensor} * context;
  WEFT_VALIDATE(ranks % group == 0,
                "{}: {} ranks do not divide into groups of that many; start a multiple of {}",
                context == 1 ? fmt::format("--tensor {}", tensor)
                             : fmt::format("--context {} --tensor {}", context, tensor),
                ranks, group);
  return static_cast<int>(group);
}

void load_model(runtime::Session& session, const Deck& deck, const ckpt::Manifest& manifest,
                const std::function<plan::Plan()>& make_plan, std::unique_ptr<exec::Executor>& executor) {
  comm::World& world = session.world();
  plan::Plan plan;
  session.reserve([&] {
    plan = make_plan();
    return std::vector<const plan::Plan*>{&plan};
  });
  executor = session.bind(std::move(plan));
  runtime::ModelState state(session, executor->plan(), model::units(compile::spec_of(deck)));
  comm::agree(world, [&] {
    state.restore([&](std::span<const ckpt::StateSlice> slices, const ckpt::Put& put) {
      ckpt::load(manifest, state.units(), slices, hooks_of(world), put);
    });
  });
  state.publish();
  runtime::upload_rope_table(session, deck);
}

}  // namespace weft::train
