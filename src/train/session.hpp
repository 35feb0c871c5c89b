// What a run computes on: ranks, channels, device memory, and the plans bound to them.
#pragma once

#include <memory>
#include <string>

#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "exec/executor.hpp"

namespace weft::train {

class Session {
 public:
  /// Collective. Opens the gather and reduce channels over the data axis. Throws Error(bad_input) when the
  /// deck's mesh does not fit.
  Session(const Deck& deck, comm::World& world);

  comm::World& world() { return world_; }
  const Mesh& mesh() const { return mesh_; }
  int ranks() const { return ranks_; }  ///< of the data axis
  int rank() const { return rank_; }    ///< this one's coordinate on it
  kernels::Space& space() { return space_; }
  exec::Memory& memory() { return memory_; }
  exec::Matmuls& matmuls() { return matmuls_; }
  /// The channel that parameters are gathered on; null with one rank.
  comm::Channel* gather() { return gather_.get(); }
  /// The channel that gradients are reduced on; null with one rank.
  comm::Channel* reduce() { return reduce_.get(); }

  /// Collective: throws Error(failure) unless all ranks made the same plan.
  void check_same_plan(const plan::Plan& plan);
  /// Binds a plan whose memory is reserved.
  std::unique_ptr<exec::Executor> bind(plan::Plan plan);

 private:
  comm::World& world_;
  Mesh mesh_;
  int ranks_;
  int rank_;
  kernels::Space space_;
  exec::Matmuls matmuls_;
  exec::ComputeLane compute_{space_};
  exec::Memory memory_;
  exec::CollectiveLog log_;
  std::unique_ptr<comm::Channel> gather_, reduce_;
};

}  // namespace weft::train
