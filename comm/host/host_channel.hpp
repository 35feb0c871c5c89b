// A channel whose calls are state machines on an engine, which makes them progress. The back ends self, mpi
// and fake differ only in the transport.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/channel.hpp"
#include "comm/host/engine.hpp"
#include "comm/host/exchange.hpp"
#include "comm/host/transport.hpp"

namespace weft::comm::detail {

/// How ranks of one host exchange what a call moves between them. Others always send messages.
enum class Through : std::uint8_t {
  messages,
  common,  ///< by a place that the team has in common
  parts,   ///< each reads what stands in the others' parts of the window
};

/// One submitted call. These are kept in a pool, so that a steady step allocates nothing.
struct PendingCall {
  FinishedCall record;
  Recorder::Ticket ticket;
  std::vector<Event> deps;
  /// Whole for reduce_scatter; others use in, out, count and wire, and all_gather also rows.
  ReduceScatter reduce;
  ReduceOp reduce_op = ReduceOp::sum;
  int peer = -1;            ///< root of a broadcast
  std::int64_t bytes = 0;   ///< size of one rank's block
  std::uint64_t group = 0;  ///< calls of one group (not 0) run concurrently
  int tag = 0;
  std::uint64_t serial = 0;  ///< number of the collective on its channel, from one: the same on all ranks
  Through through = Through::messages;
  std::int64_t copied = 0;  ///< bytes of the neighbours' blocks that a gather has copied
  int meeting = 0;          ///< the team's meeting that it waits for: 1 or 2; 0: none
  int phase = 0;
  bool finished = false;
  std::int64_t not_before_ns = -1;  ///< injected delay; -1: not drawn yet
  std::int64_t not_done_before_ns = 0;
  std::vector<std::byte> scratch;  ///< for all_reduce only; it keeps its capacity
  std::vector<const void*> sources;
  ExchangeRun run;
};

class HostChannel final : public Channel {
 public:
  struct Setup {
    int rank = 0;
    int size = 1;
    Lane lane = Lane::gather;
    std::string name;
    std::int64_t chunk_bytes = default_chunk_bytes;
    std::vector<int> ranks;                  ///< world ranks
    std::vector<int> host_of;                ///< a number for each rank's host; empty: not known yet
    std::unique_ptr<Transport> transport;    ///< null for one rank
    std::function<std::int64_t()> delay_ns;  ///< in fake worlds, an injected delay before start and end
  };
  HostChannel(Engine& engine, Setup setup);
  /// Waits for the submitted calls. When an exception is on its way, they are dropped.
  ~HostChannel() override;

  Event all_gather(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) override;
  Event all_gather_rows(Deps deps, const void* in, void* out, std::int64_t count, DType dtype,
                        const UsedRows& rows) override;
  Event reduce_scatter(Deps deps, const ReduceScatter& what) override;
  Event all_reduce(Deps deps, void* buffer, std::int64_t count, DType dtype, ReduceOp op) override;
  Event broadcast(Deps deps, void* buffer, std::int64_t bytes, int root) override;
  Event all_to_all(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) override;
  Event send(Deps deps, const void* buffer, std::int64_t bytes, int peer) override;
  Event recv(Deps deps, void* buffer, std::int64_t bytes, int peer) override;
  Event barrier(Deps deps) override;
  void group_begin() override;
  void group_end() override;
  void share(Window& window, SharedGathers gathers) override;

  /// Looks once at everything: admits, advances and retires calls. Only the engine's thread calls it. What
  /// throws meanwhile, an observer too, fails the engine with the call's name.
  bool progress();
  // The engine's thread paces itself by these.
  std::int64_t bytes_in_flight() const;
  std::int64_t bytes_done() const { return bytes_done_; }
  /// Whether a call waits for a meeting of the team.
  bool meets() const;

 private:
  /// Its values rise with the channel's calls. When the caller drives the engine, polling it is what
  /// makes progress.
  class ChannelTimeline final : public HostTimeline {
   public:
    explicit ChannelTimeline(HostChannel& channel) : channel_(channel) {}
    bool done(std::uint64_t value) override;
    void sync(std::uint64_t value) override;

   private:
    void wait(std::uint64_t value);

    HostChannel& channel_;
  };

  template <class IsPeer>
  Peers peers(IsPeer&& is_peer) const;
  PendingCall& draw(CallKind kind, Deps deps, std::int64_t count, DType dtype);
  Event submit(PendingCall& call);
  PendingCall* next_ready();
  bool admit();
  bool advance(PendingCall& call);
  bool retire();
  void combine_portions(PendingCall& call);
  bool start_phase(PendingCall& call);
  Through way_of(const PendingCall& call) const;
  void meet(PendingCall& call, int meeting);
  bool copies_blocks(const PendingCall& call) const;
  void copy_block(PendingCall& call);
  const Peers& partners(Through through) const;
  void send_rows(const PendingCall& call, Exchange::RowsOf of, Exchange& x);
  const std::byte* in_neighbours_part(const PendingCall& call, int rank) const;
  bool reduce_phase(const PendingCall& call, Exchange& x);
  bool all_reduce_phase(PendingCall& call, Exchange& x);
  bool broadcast_phase(const PendingCall& call, Exchange& x);
  bool barrier_phase(const PendingCall& call, Exchange& x);
  void finish(PendingCall& call);
  [[noreturn]] void fail(const std::exception& e);

  Engine& engine_;
  std::int64_t chunk_bytes_;
  std::unique_ptr<Transport> transport_;
  std::function<std::int64_t()> delay_ns_;
  ChannelTimeline timeline_;

  std::vector<int> ranks_;
  std::vector<int> host_of_;
  Window* window_ = nullptr;
  SharedGathers gathers_ = SharedGathers::to_common;
  Peers others_;                ///< all ranks but this one
  Peers abroad_;                ///< all ranks on other hosts
  Peers counterparts_;          ///< on each other host, the rank with this one's place in its team
  std::vector<int> member_of_;  ///< by rank: the place in the window; -1 on other hosts
  std::vector<int> team_;       ///< the places in the window of this rank's team

  // These belong to the submitting thread.
  std::uint64_t submitted_ = 0;
  std::uint64_t collective_tags_ = 0;
  std::vector<std::uint64_t> send_tags_, recv_tags_;  // by peer
  std::uint64_t group_ = 0, groups_ = 0;

  std::mutex mutex_;  // guards the two lists of calls
  std::vector<std::unique_ptr<PendingCall>> free_;
  std::vector<std::unique_ptr<PendingCall>> pending_;  // a ring buffer: pending_[(first_ + i) % capacity]
  std::size_t first_ = 0, pending_count_ = 0;
  std::unique_ptr<PendingCall> drawn_;

  // These belong to the engine.
  std::vector<std::unique_ptr<PendingCall>> active_;
  const PendingCall* at_hand_ = nullptr;  ///< the call that progress() looks at
  std::vector<std::byte> staging_;        ///< for the active call that sends rows, if there is one
  std::int64_t busy_since_ns_ = 0;
  std::int64_t bytes_done_ = 0;
};

}  // namespace weft::comm::detail
