// A channel whose operations are state machines on an engine: the back ends self, mpi and fake differ in the
// transport only.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/channel.hpp"
#include "comm/host/engine.hpp"
#include "comm/host/exchange.hpp"
#include "comm/host/transport.hpp"

namespace weft::comm::detail {

/// One submitted operation. Kept in a pool: a steady step allocates nothing.
struct PendingCall {
  FinishedCall record;
  Recorder::Ticket ticket;
  std::vector<Event> deps;
  ReduceScatter reduce;  ///< reduce_scatter; in, out, count, wire are used by the others, rows by all_gather
  ReduceOp reduce_op = ReduceOp::sum;
  int peer = -1;            ///< broadcast: the root
  std::int64_t bytes = 0;   ///< of one rank's block
  std::uint64_t group = 0;  ///< operations of one group (not 0) run concurrently
  int tag = 0;
  std::uint64_t serial = 0;  ///< from one, of the channel's collectives: the same on all ranks
  bool shared = false;       ///< through the team's window
  int meeting = 0;           ///< of the team, that the operation waits for: first, second; 0: none
  int phase = 0;
  bool finished = false;
  std::int64_t not_before_ns = -1;  ///< injected delays; -1: not drawn yet
  std::int64_t not_done_before_ns = 0;
  std::vector<std::byte> scratch;  ///< all_reduce only; keeps its capacity
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
    std::vector<int> host_of;                ///< by rank, a number for each host; empty: not known yet
    std::unique_ptr<Transport> transport;    ///< null for one rank
    std::function<std::int64_t()> delay_ns;  ///< fake: an injected delay before the start and before the end
  };
  HostChannel(Engine& engine, Setup setup);
  /// Waits for the submitted operations, unless an exception is on its way: then they are dropped.
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
  void share(Window& window) override;

  /// One look at everything: admit, advance, retire. The engine's thread only.
  bool progress();
  // The engine's thread: what it paces itself by.
  std::int64_t bytes_in_flight() const;
  std::int64_t bytes_done() const { return bytes_done_; }

 private:
  /// Advances with the channel's operations; in the caller-driven engine, polling it is what makes progress.
  class ChannelTimeline final : public HostTimeline {
   public:
    explicit ChannelTimeline(Engine& engine) : engine_(engine) {}
    bool done(std::uint64_t value) override;
    void sync(std::uint64_t value) override;

   private:
    Engine& engine_;
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
  bool lies_in_window(const PendingCall& call) const;
  void meet(PendingCall& call, int meeting);
  void send_rows(const PendingCall& call, Exchange::RowsOf of, Exchange& x);
  const std::byte* neighbours_vector(const PendingCall& call, int rank) const;
  bool reduce_phase(const PendingCall& call, Exchange& x);
  bool all_reduce_phase(PendingCall& call, Exchange& x);
  bool broadcast_phase(const PendingCall& call, Exchange& x);
  bool barrier_phase(const PendingCall& call, Exchange& x);
  void finish(PendingCall& call);
  [[noreturn]] void fail(const PendingCall& call, const std::string& why);

  Engine& engine_;
  std::int64_t chunk_bytes_;
  std::unique_ptr<Transport> transport_;
  std::function<std::int64_t()> delay_ns_;
  ChannelTimeline timeline_;

  std::vector<int> host_of_;
  Window* window_ = nullptr;
  Peers others_;                ///< all ranks but this one
  Peers abroad_;                ///< all ranks of other hosts
  Peers counterparts_;          ///< of other hosts, the rank with this one's place in its team
  std::vector<int> member_of_;  ///< by rank: the place in this rank's team; -1 for other hosts

  // The submitting thread's.
  std::uint64_t submitted_ = 0;
  std::uint64_t collective_tags_ = 0;
  std::vector<std::uint64_t> send_tags_, recv_tags_;  // a peer
  std::uint64_t group_ = 0, groups_ = 0;

  std::mutex mutex_;  // guards the two lists
  std::vector<std::unique_ptr<PendingCall>> free_;
  std::vector<std::unique_ptr<PendingCall>> pending_;  // a ring buffer: pending_[(first_ + i) % capacity]
  std::size_t first_ = 0, pending_count_ = 0;
  std::unique_ptr<PendingCall> drawn_;

  // The engine's.
  std::vector<std::unique_ptr<PendingCall>> active_;
  std::vector<std::byte> staging_;  ///< of the active operation that sends rows, if there is one
  std::int64_t busy_since_ns_ = 0;
  std::int64_t bytes_done_ = 0;
};

}  // namespace weft::comm::detail
