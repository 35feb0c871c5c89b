// Channels: collectives over bytes and dtypes, enqueued in order and completed through events. Back ends:
// self, mpi, nccl, fake.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/choices.hpp"
#include "base/dtype.hpp"
#include "base/lane.hpp"
#include "base/write_mode.hpp"
#include "comm/event.hpp"
#include "comm/recorder.hpp"
#include "comm/rows.hpp"
#include "comm/window.hpp"

namespace weft::comm {

enum class CallKind : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  all_to_all,
  send,
  recv,
  barrier
};
enum class ReduceOp : std::uint8_t { sum, max, min };

std::string_view name_of(CallKind kind);

/// One reduce-scatter over S ranks. canonical: out = ((acc + s0) + s1) + ... in fp32, where acc is out's old
/// value (add) or absent (replace: starts from s0), and s_r is rank r's slice of this rank. Out may be this
/// rank's slice of `in` if types agree.
struct ReduceScatter {
  const void* in = nullptr;     ///< [S * count] of `wire`
  void* out = nullptr;          ///< [count] of `out_type`
  void* scratch = nullptr;      ///< reduce_scatter_scratch_bytes(...) of its own until the event is done
  std::int64_t count = 0;       ///< elements a rank
  DType wire = DType::f32;      ///< f32 or bf16
  DType sum = DType::f32;       ///< f32
  DType out_type = DType::f32;  ///< f32 or bf16
  WriteMode write = WriteMode::replace;
  ReduceOrder order = ReduceOrder::canonical;
  /// `in` is a table, of which each rank's unused rows are zero: they need not be sent. Unchanged until the
  /// event is done.
  const UsedRows* rows = nullptr;
};

/// Bytes of ReduceScatter::scratch for `size` ranks: (size - near) * count elements of `wire`, bounded to
/// about 64 MiB because slices are exchanged in portions. `near` are the ranks, this one among them, whose
/// slices need no copy: the team when `in` lies in a window. A pure function, for the memory pass; holds for
/// every back end.
std::size_t reduce_scatter_scratch_bytes(int size, std::int64_t count, DType wire, ReduceOrder order,
                                         int near = 1);

/// What a finished operation was, for traces, metrics and tests. Times are steady_clock nanoseconds.
struct FinishedCall {
  CallKind kind = CallKind::barrier;
  Lane lane = Lane::gather;
  DType dtype = DType::u8;
  std::int64_t count = 0;      ///< elements a rank, as given to the call
  std::uint64_t sequence = 0;  ///< from 1, the operation's value on the channel's timeline
  std::uint64_t bytes = 0;     ///< payload sent to other ranks
  std::int64_t start_ns = 0;   ///< its dependencies were done
  std::int64_t end_ns = 0;
};

/// A channel's operations in a captured CUDA graph. Ends before the channel, and behind the graph.
class CapturedCalls {
 public:
  virtual ~CapturedCalls() = default;
  /// A run of the graph, the only one since the last call, has ended: the channel's counters go on as if its
  /// operations had been called.
  virtual void count_run() = 0;
};

/// One communicator and one lane, first in, first out. All calls return at once; the operation starts when
/// the events in `deps` are done and the operations before it on this channel are finished. Buffers stay
/// valid until the returned event is done. Counts are elements (64-bit). All ranks call the same operations
/// in the same order. One thread submits. A failing operation prints one line and ends all ranks.
class Channel {
 public:
  using Deps = std::span<const Event>;

  Channel(int rank, int size, Lane lane, std::string name)
      : rank_(rank), size_(size), lane_(lane), name_(std::move(name)) {}
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Lane lane() const { return lane_; }
  const std::string& name() const { return name_; }

  /// in [count] -> out [size * count]; in may be out + rank * count.
  virtual Event all_gather(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) = 0;
  /// The same for a table: a rank may receive only the rows that it uses, and finds anything in the others.
  /// `rows` stays unchanged until the event is done.
  virtual Event all_gather_rows(Deps deps, const void* in, void* out, std::int64_t count, DType dtype,
                                const UsedRows& /*rows*/) {
    return all_gather(deps, in, out, count, dtype);
  }
  virtual Event reduce_scatter(Deps deps, const ReduceScatter& what) = 0;
  /// In place over `buffer` [count], combined in rank order on the host, the same bits on every rank. f32,
  /// f64, i32, i64, u32, u64.
  virtual Event all_reduce(Deps deps, void* buffer, std::int64_t count, DType dtype, ReduceOp op) = 0;
  virtual Event broadcast(Deps deps, void* buffer, std::int64_t bytes, int root) = 0;
  /// in [size * count] -> out [size * count]: block p goes to rank p. in and out do not overlap.
  virtual Event all_to_all(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) = 0;
  /// Like NCCL's: two ranks that send to each other put send and recv in one group.
  virtual Event send(Deps deps, const void* buffer, std::int64_t bytes, int peer) = 0;
  virtual Event recv(Deps deps, void* buffer, std::int64_t bytes, int peer) = 0;
  virtual Event barrier(Deps deps) = 0;

  /// Operations between begin and end run together (one NCCL launch; concurrent messages on the host).
  /// Their events hold only after group_end. Groups don't nest.
  virtual void group_begin() = 0;
  virtual void group_end() = 0;

  std::size_t reduce_scatter_scratch_bytes(std::int64_t count, DType wire, ReduceOrder order) const {
    return comm::reduce_scatter_scratch_bytes(size_, count, wire, order);
  }

  /// Collective over the channel. From here on, an all_gather whose `out` lies in the window's common stretch
  /// is made once for the team: all its members pass the same place, and find all of it there. A
  /// reduce_scatter whose `in` lies in a member's part reads the others' slices where they stand: all members
  /// pass the same place of their parts. The window belongs to this rank's team (World::team) and outlives
  /// the channel's operations.
  virtual void share(Window& /*window*/) {}

  /// Operands will lie in these bytes, which outlive the channel: a library that can then sends from there
  /// and receives there, without buffers of its own. Where it cannot, nothing changes.
  virtual void register_memory(std::byte* /*memory*/, std::size_t /*bytes*/) {}

  /// Whether operations can be captured into a CUDA graph, instead of running, between begin_capture() and
  /// end_capture().
  virtual bool capturable() const { return false; }
  /// `fork` is an event of the stream that is being captured. Events of the operations that follow hold
  /// within the capture, which ends when that stream waits for the last of them.
  virtual void begin_capture(const Event& fork);
  virtual std::unique_ptr<CapturedCalls> end_capture();

  /// Counters since the channel was opened; any thread may read them. Payload bytes sent to other ranks.
  std::uint64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }
  /// Operations other than send, recv and barrier.
  std::uint64_t collectives() const { return collectives_.load(std::memory_order_relaxed); }
  /// Seconds in which an operation was in progress (its dependencies done, itself not).
  virtual double busy_seconds() const {
    return 1e-9 * static_cast<double>(busy_ns_.load(std::memory_order_relaxed));
  }

  /// Called for each finished operation, on the communication thread (host back ends; nccl leaves timing to
  /// its tools). Set it before the first operation.
  void set_observer(std::function<void(const FinishedCall&)> observer) { observer_ = std::move(observer); }

  /// Operations are recorded there, under the label that was set last: what they are for, copied when they
  /// are called. World::open sets the record, before the first operation.
  void record_in(std::unique_ptr<ChannelRecord> record) { record_ = std::move(record); }
  void set_label(std::string_view label) { label_ = label; }
  /// False: the host does not learn when an operation ends, unless it asks its event.
  virtual bool ends_seen() const { return true; }

 protected:
  /// Null: nothing is recorded.
  ChannelRecord* record() const { return record_.get(); }
  Recorder::Ticket record_enqueued(CallKind kind, std::int64_t bytes, int peer = -1) const {
    if (!record_) return {};
    return record_->enqueued(
        {name_of(kind), bytes, peer, kind != CallKind::send && kind != CallKind::recv, label_});
  }

  std::atomic<std::uint64_t> bytes_sent_{0};
  std::atomic<std::uint64_t> collectives_{0};
  std::atomic<std::uint64_t> busy_ns_{0};
  std::function<void(const FinishedCall&)> observer_;

 private:
  int rank_;
  int size_;
  Lane lane_;
  std::string name_;
  std::unique_ptr<ChannelRecord> record_;
  std::string_view label_;
};

}  // namespace weft::comm
