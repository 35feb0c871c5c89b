// The session: what a run computes on, that is ranks, channels, device memory, and the plans bound to them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/stage_places.hpp"
#include "comm/world.hpp"
#include "deck/deck.hpp"
#include "exec/executor.hpp"
#include "runtime/token_rows.hpp"

namespace weft::runtime {

/// The channels of a rank, at most one a lane. They end in the reverse of the order in which they were
/// opened, because the end of a communicator waits for its other ranks. All ranks open their channels in one
/// order; by lanes the order would differ where a channel has another lane at either end, and ranks would
/// wait in a circle.
class Channels {
 public:
  Channels() = default;
  ~Channels() {
    while (!opened_.empty()) opened_.pop_back();
  }
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  comm::Channel& add(std::unique_ptr<comm::Channel> channel) {
    return *opened_.emplace_back(std::move(channel));
  }
  /// The channel of a lane; null where there is none.
  comm::Channel* operator[](Lane lane) const {
    for (const auto& channel : opened_)
      if (channel->lane() == lane) return channel.get();
    return nullptr;
  }

 private:
  std::vector<std::unique_ptr<comm::Channel>> opened_;
};

class Session {
 public:
  /// Collective. Opens the gather and reduce channels over the data axis, the replica channel over the
  /// replica axis, the tensor channel over the tensor axis (and copies over those there who have the same
  /// heads of keys and values), the context channel over the context axis, and over the pipe axis its own and
  /// one to each neighbour for each direction. Throws Error(bad_input) when the deck's mesh does not
  /// fit.
  Session(const Deck& deck, comm::World& world);

  comm::World& world() { return world_; }
  /// The mesh. It has teams, of this rank and its neighbours on the axes data, context and tensor, where
  /// the device is the host, every host has as many ranks, and the deck allows it. It has peer_reads where
  /// the deck wants them on GPUs, and all ranks can do so.
  const Mesh& mesh() const { return mesh_; }
  /// The teams that a mesh of so many ranks is taken to have: these. With other ranks than there are now, it
  /// may reach over hosts that do not read each other's memory.
  Teams teams_of(int ranks) const {
    Teams teams = mesh_.teams();
    teams.peer_reads = teams.peer_reads && ranks == this->ranks();
    return teams;
  }
  /// How many ranks there are in all.
  int ranks() const { return mesh_.world(); }
  int rank() const { return world_.rank(); }
  /// How many ranks share the batch, and this rank's place among them: its microbatches are
  /// m = round * batch_ranks + batch_rank.
  int batch_ranks() const { return mesh_.batch_ranks(); }
  int batch_rank() const { return mesh_.batch_rank(rank()); }
  /// This rank's place on the pipe: which stages of the model it has.
  int pipe_rank() const { return mesh_.pipe_rank(rank()); }
  /// Which rank of the pipe has which stage.
  const StagePlaces& stage_places() const { return stage_places_; }
  /// This rank's place on the tensor axis: which part of each matrix it has.
  int tensor_rank() const { return mesh_.tensor_rank(rank()); }
  /// This rank's place on the context axis: which part of each sequence it has.
  int context_rank() const { return mesh_.context_rank(rank()); }
  /// How many ranks state is cut over, those of a group of the data axis; shard() is this rank's place there.
  int shards() const { return shards_; }
  int shard() const { return shard_; }
  /// This rank's part of a unit that is cut over all ranks that have it (Mesh::unit_ranks). The parts of
  /// ranks that hold the same shard lie side by side in that shard.
  int own_part(const Unit& unit) const {
    const int part = shard_ * replicas() + replica_;
    return part * unit.copies + tensor_rank() % unit.copies;
  }
  kernels::Space& space() { return space_; }
  exec::Memory& memory() { return memory_; }
  const exec::Memory& memory() const { return memory_; }
  exec::Matmuls& matmuls() { return matmuls_; }
  /// The channel of a lane. Those of gather and reduce are over the ranks that state is cut over, and null
  /// with one shard; that of replica is null without replicas, those of tensor, copies and context without
  /// such an axis, and those between stages without a pipe.
  comm::Channel* channel(Lane lane) { return channels_[lane]; }
  int replicas() const { return mesh_.size(replica_axis); }

  /// Collective: throws Error(bad_input) on all ranks unless those that have the same stages of the model
  /// made the same plan.
  void check_same_plan(const plan::Plan& plan);
  using MakePlans = std::function<std::vector<const plan::Plan*>()>;
  /// Collective: makes the plans and allocates what they need. Call it once. When a host gives no shared
  /// memory, mesh() loses its teams, and the plans are made again without them. So they are without
  /// peer_reads when a rank's memory cannot be shown to the others.
  void reserve(const MakePlans& make_plans);
  /// Collective: binds a plan whose memory is reserved. What its kernels warn of is said once for all ranks.
  std::unique_ptr<exec::Executor> bind(plan::Plan plan);
  /// Must be told the tokens before each step of a plan that sends rows; null when no such plan was bound.
  TokenRows* token_rows() { return token_rows_.get(); }

 private:
  /// A channel that is to be opened. All of them are known before the first one is, because they share a
  /// device.
  struct Opening {
    std::vector<int> ranks;
    Lane lane;
    std::string name;
  };
  void open(std::vector<Opening> openings);
  void add_copies(int kv_heads, std::vector<Opening>& openings) const;
  void add_links(std::vector<Opening>& openings) const;
  void find_teams(const Deck& deck);
  void drop_uneven(std::vector<int>& team, bool good);
  void give_up_a_team();
  void set_teams();
  /// Decides whether collectives are captured: by all ranks or by none.
  void decide_capture(const Deck& deck);
  std::vector<int> window_ranks() const;
  bool wants_window(exec::Memory::Plans plans);
  /// Opens the window of this rank's teams; null on all ranks when one of them cannot have it.
  exec::SharedMemory open_window(exec::Memory::Plans plans);
  void share_channels(comm::Window& window);
  void take_memory(const MakePlans& make_plans);
  void give_memory_back();
  void register_memory();
  /// Decides whether the plans can do without scratch for gradients: on all ranks or on none.
  void decide_peer_reads(const Deck& deck);
  void show_memory(bool suitable);
  /// Collective: gives peer reads up unless no rank says why they are impossible.
  void allow_peer_reads(const std::string& why);

  comm::World& world_;
  CudaGraph capture_ = CudaGraph::off;
  bool peer_reads_ = false;  ///< whether the deck wants them, and no rank has found that they are impossible
  Mesh mesh_;
  std::vector<int> data_team_, tensor_team_;  ///< world ranks of this rank's teams on either axis
  int context_team_ = 1;                      ///< how many ranks of its data team share its sequences
  StagePlaces stage_places_;
  int shards_;
  int shard_;
  int replica_ = 0;
  kernels::Space space_;
  exec::Matmuls matmuls_;
  exec::ComputeLane compute_{space_};
  exec::Memory memory_;
  exec::CollectiveLog log_;
  Channels channels_;
  /// Records whole runs of plans, where a device's collectives end unseen.
  std::unique_ptr<comm::ChannelRecord> runs_;
  std::unique_ptr<TokenRows> token_rows_;
};

}  // namespace weft::runtime
