// The world: all ranks of a run, where they live, and the conveniences for start-up, which block the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/channel.hpp"
#include "comm/recorder.hpp"
#include "comm/window.hpp"

namespace weft::comm {

struct ChannelOptions {
  std::int64_t chunk_bytes = 63 << 10;  ///< longest message of a host back end (portions.hpp); at most 1 GiB
  /// The lanes of all channels that this rank has open at once, this one among them; the same on all ranks of
  /// the channel. A device's library shares the device among them. Empty: the library's own limits stay.
  std::vector<Lane> open_at_once;
};

/// All ranks of a run. Use it from the main thread. Channels must be destroyed before their world. After
/// start-up one thread of its own makes all MPI calls. The destructor ends MPI. When an exception is on its
/// way it leaves MPI alone, and whoever catches the exception calls end_all_ranks.
class World {
 public:
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// This rank's place among the ranks of its host. Below: how many these are, its host's name, and all
  /// hosts' names by rank.
  int node_rank() const { return node_rank_; }
  int node_size() const { return node_size_; }
  /// How many ranks compute on this rank's device: 1 where the device is the host, and on a GPU of its own.
  virtual int device_sharers() const { return 1; }
  const std::string& host() const { return hosts_[static_cast<std::size_t>(rank())]; }
  const std::vector<std::string>& hosts() const { return hosts_; }

  /// Collective over `ranks` (world ranks, this one among them, in the same order on all), which open their
  /// channels in the same order, and end them in one order, too: both may wait for the other ranks. Call it
  /// at start-up. The channel's rank is the place in `ranks`. Lane and name are for traces and messages.
  std::unique_ptr<Channel> open(std::vector<int> ranks, Lane lane, std::string name,
                                ChannelOptions options = {});

  /// The ranks of `group` (world ranks) on this rank's host, in its order, when each host has as many of
  /// them; else this rank alone.
  std::vector<int> team(const std::vector<int>& group) const;
  /// Collective over `ranks` (ascending world ranks of one host, this one among them): memory that they
  /// share, zeroed. It is null where that cannot be had, and the caller then does without. Call it at
  /// start-up.
  virtual std::unique_ptr<Window> share(const std::vector<int>& ranks, const WindowSizes& sizes);

  /// Memory of the device that this world's channels can register; null where no memory is better than any
  /// other. It must end before the world.
  virtual std::shared_ptr<std::byte> allocate(std::size_t /*bytes*/) { return nullptr; }

  // These calls are collective, and the host waits. They are for start-up, logging and tests.
  void barrier();
  void all_reduce_max(std::span<double> values);
  void all_reduce_sum(std::span<double> values);
  void all_reduce_sum(std::span<std::int64_t> values);
  void all_reduce_sum(std::span<std::uint64_t> values);
  /// Gives every rank the root's text.
  std::string broadcast(std::string text, int root);
  /// Gives rank 0 everybody's text, by rank, and the others nothing.
  std::vector<std::string> gather_strings(const std::string& text);

  /// Records this rank's calls: those on channels, and the blocking ones.
  Recorder& recorder() const { return *recorder_; }
  /// A record for calls over all ranks that do not belong to a channel.
  std::unique_ptr<ChannelRecord> open_record(std::string name) const;

  /// What a library of channels has met beside its calls, in one line, when calls under way will never end;
  /// empty when there is nothing. It may be called on any thread, and does not block.
  virtual std::string failure() { return {}; }

  /// Ends all ranks with this exit code at once. It may be called on any thread.
  [[noreturn]] virtual void abort(int code) = 0;

 protected:
  World() = default;
  virtual std::unique_ptr<Channel> open_channel(const std::vector<int>& ranks, Lane lane, std::string name,
                                                const ChannelOptions& options) = 0;
  /// The name of this rank's host, for connect().
  virtual std::string host_name() const;
  /// A number for each rank's host; empty before connect() has learnt them.
  std::vector<int> host_numbers(const std::vector<int>& ranks) const;
  /// Opens the channel that the blocking calls use, and learns the hosts. Back ends call it once, when
  /// channels can be opened.
  void connect();
  /// Takes over the blocking calls and the hosts of another world.
  void connect_through(const World& other);
  void disconnect() { control_.reset(); }

 private:
  std::vector<int> everybody() const;
  ChannelRecord* openings(const std::vector<int>& ranks);

  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
  /// Records of the calls of open(), one for each set of ranks that open channels together: others need not
  /// open as many.
  std::map<std::vector<int>, std::unique_ptr<ChannelRecord>> openings_;
  std::string openings_name_;  ///< what these records are called; empty: there are none yet
  std::shared_ptr<Channel> control_;
  std::vector<std::string> hosts_;
  int node_rank_ = 0;
  int node_size_ = 1;
};

/// A world of one rank without MPI. The calling thread runs calls when they are submitted or polled.
std::unique_ptr<World> make_self_world();

/// The world of all ranks of MPI_COMM_WORLD; initialises MPI unless that is done already. Throws
/// Error(bad_input) when Slurm started another number of tasks than MPI sees (srun with the wrong --mpi makes
/// singletons), and Error(comm_failure) when MPI fails.
std::unique_ptr<World> make_mpi_world(int* argc, char*** argv);

/// Calls make_mpi_world when a launcher (mpirun, mpiexec, srun) started this process, and make_self_world
/// when none did.
std::unique_ptr<World> make_world(int* argc, char*** argv);

/// Ends all ranks of the run with this exit code (by MPI_Abort while MPI is up). It is for who has told the
/// error that ends the run, where the world may be gone.
[[noreturn]] void end_all_ranks(int code);

}  // namespace weft::comm
