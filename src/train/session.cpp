#include "train/session.hpp"

#include <utility>

#include "base/check.hpp"

namespace weft::train {

Session::Session(const Deck& deck, comm::World& world)
    : world_(world),
      mesh_(resolve_mesh(deck, world.size())),
      ranks_(mesh_.size(mesh_.axis("data"))),
      rank_(mesh_.coordinate(world.rank(), mesh_.axis("data"))) {
  if (ranks_ == 1) return;
  const std::vector<int> group = mesh_.group(world.rank(), mesh_.axis("data"));
  gather_ = world.open(group, Lane::gather, "gather.data");
  reduce_ = world.open(group, Lane::reduce, "reduce.data");
  log_.observe(*gather_);
  log_.observe(*reduce_);
}

void Session::check_same_plan(const plan::Plan& plan) {
  const std::string mine = fmt::format("{:016x}", plan.hash);
  const std::string first = world_.broadcast(mine, 0);
  if (mine != first)
    throw Error(ExitCode::failure, fmt::format("rank {} on {} planned {} and rank 0 planned {} for '{}' (the "
                                               "ranks run different decks, builds or processors); "
                                               "start all ranks from one installation on equal nodes",
                                               world_.rank(), world_.host(), mine, first, plan.graph.name()));
}

std::unique_ptr<exec::Executor> Session::bind(plan::Plan plan) {
  const exec::Device device{space_, matmuls_, compute_, gather_.get(), reduce_.get(), &log_};
  return std::make_unique<exec::Executor>(std::move(plan), device, memory_, rank_);
}

}  // namespace weft::train
