// Channels run collectives over bytes and dtypes. Calls are enqueued in order, and complete through
// events. The back ends are self, mpi, nccl and fake.
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

/// Which gathers go through a window.
enum class SharedGathers : std::uint8_t {
  /// The gathers whose `out` lies in the common stretch go through the window. They are made once for the
  /// team: all its ranks pass the same place, and find all of the result there.
  to_common,
  /// The gathers whose `in` lies in a rank's part go through the window: all ranks pass the same place of
  /// their parts, and each copies the blocks of the others from where they stand.
  from_parts,
};

/// One reduce-scatter over S ranks. With `canonical`, out = ((acc + s0) + s1) + ... in fp32. There acc is
/// out's old value (add) or absent (replace: the sum starts from s0), and s_r is the slice that rank r has
/// for this rank. `out` may be this rank's slice of `in` if the types agree.
struct ReduceScatter {
  const void* in = nullptr;  ///< [S * count] of `wire`
  void* out = nullptr;       ///< [count] of `out_type`
  /// Memory of reduce_scatter_scratch_bytes(...), used by no one else until the event is done. It may be null
  /// where the slices of the other ranks are read where they stand (Channel::show_memory).
  void* scratch = nullptr;
  std::int64_t count = 0;       ///< elements of one rank's slice
  DType wire = DType::f32;      ///< f32 or bf16
  DType sum = DType::f32;       ///< f32
  DType out_type = DType::f32;  ///< f32 or bf16
  WriteMode write = WriteMode::replace;
  ReduceOrder order = ReduceOrder::canonical;
  /// Set when `in` is a table whose rows that a rank does not use are zero, so that they need not be sent. It
  /// stays unchanged until the event is done.
  const UsedRows* rows = nullptr;
};

/// Bytes of ReduceScatter::scratch for `size` ranks: (size - near) * count elements of `wire`, but no more
/// than 64 MiB, or 16 KiB for each peer where that is more (from 4,098 ranks on: 256 MiB for 16,384), because
/// slices are exchanged in portions. With `native` it is at least one slice, whatever its length. `near` is
/// the number of ranks, this one among them, whose slices need no copy: the team when `in` lies in a window.
/// The result depends on the arguments alone, so that memory can be planned with it, and it holds for every
/// back end.
std::size_t reduce_scatter_scratch_bytes(int size, std::int64_t count, DType wire, ReduceOrder order,
                                         int near = 1);

/// What a finished call was, for traces, metrics and tests. Times are nanoseconds of steady_clock.
struct FinishedCall {
  CallKind kind = CallKind::barrier;
  Lane lane = Lane::gather;
  DType dtype = DType::u8;
  std::int64_t count = 0;      ///< elements of one rank, as given to the call
  std::uint64_t sequence = 0;  ///< number of the call on the channel's timeline, from 1
  std::uint64_t bytes = 0;     ///< payload sent to other ranks
  std::int64_t start_ns = 0;   ///< when its dependencies were done
  std::int64_t end_ns = 0;
};

/// The calls on a channel that belong to a captured CUDA graph. It must end before the channel, and after the
/// graph.
class CapturedCalls {
 public:
  virtual ~CapturedCalls() = default;
  /// Tells that a run of the graph has ended, the only one since count_run() was last called: the channel's
  /// counters go on as if the calls had been made.
  virtual void count_run() = 0;
};

/// A channel: one communicator and one lane, first in, first out. A function that makes a call returns at
/// once. The call starts when the events in `deps` are done and the calls before it on this channel are
/// finished. Buffers stay valid until the returned event is done. Counts are elements (64-bit). All ranks
/// make the same calls in the same order. One thread submits. A failing call prints one line and ends all
/// ranks.
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

  /// Gathers in [count] of all ranks into out [size * count]; `in` may be out + rank * count.
  virtual Event all_gather(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) = 0;
  /// Gathers a table, of which a rank may receive only the rows that it uses; the other rows then hold
  /// anything. `rows` stays unchanged until the event is done.
  virtual Event all_gather_rows(Deps deps, const void* in, void* out, std::int64_t count, DType dtype,
                                const UsedRows& /*rows*/) {
    return all_gather(deps, in, out, count, dtype);
  }
  virtual Event reduce_scatter(Deps deps, const ReduceScatter& what) = 0;
  /// Reduces in place over `buffer` [count]. Values are combined in rank order on the host, with the same
  /// bits on every rank. The dtype is f32, f64, i32, i64, u32 or u64.
  virtual Event all_reduce(Deps deps, void* buffer, std::int64_t count, DType dtype, ReduceOp op) = 0;
  virtual Event broadcast(Deps deps, void* buffer, std::int64_t bytes, int root) = 0;
  /// Exchanges blocks: in [size * count] -> out [size * count], and block p goes to rank p. `in` and `out` do
  /// not overlap.
  virtual Event all_to_all(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) = 0;
  /// Sends to one rank. As with NCCL, two ranks that send to each other put send and recv in one group.
  virtual Event send(Deps deps, const void* buffer, std::int64_t bytes, int peer) = 0;
  virtual Event recv(Deps deps, void* buffer, std::int64_t bytes, int peer) = 0;
  virtual Event barrier(Deps deps) = 0;

  /// Calls between begin and end run together (one NCCL launch; concurrent messages on the host). Their
  /// events hold only after group_end. Groups are not nested.
  virtual void group_begin() = 0;
  virtual void group_end() = 0;

  std::size_t reduce_scatter_scratch_bytes(std::int64_t count, DType wire, ReduceOrder order) const {
    return comm::reduce_scatter_scratch_bytes(size_, count, wire, order);
  }

  /// Collective over the channel. From here on, a reduce_scatter whose `in` lies in a rank's part of the
  /// window reads the slices of the others where they stand: all ranks pass the same place of their parts.
  /// The window has this rank's team (World::team), perhaps other ranks, and no other channel of this lane.
  /// It outlives the channel's calls.
  virtual void share(Window& /*window*/, SharedGathers /*gathers*/) {}

  /// Tells that operands will lie in these bytes, which stay until the channel ends or forgets them. A
  /// library that can do so then sends from there and receives there, without buffers of its own. For others
  /// nothing changes. Returns whether it will; where one rank of the channel gets false, all ranks must
  /// forget. An operand of a collective lies at the same place of these bytes on all ranks; of a call in
  /// place, its longer operand does.
  virtual bool register_memory(std::byte* /*memory*/, std::size_t /*bytes*/) { return false; }
  /// Takes back all that register_memory() and show_memory() were told.
  virtual void forget_memory() {}

  /// Why show_memory() cannot work, whatever the memory is; nothing where it may. It is known from the
  /// channel's beginning on, so that memory can be planned by it. Other ranks may have another answer.
  virtual std::string cannot_show_memory() const { return "these channels send messages"; }
  /// Collective over the channel. Shows these stretches of memory of World::allocate, which have the same
  /// sizes on all ranks, to its other ranks. From here on, a canonical reduce_scatter whose `in` lies there
  /// reads the slices of the others where they stand, without scratch: `in` then lies at the same place of
  /// the same stretch on all ranks. The memory stays until the channel ends, or hides or forgets it. Returns
  /// why that cannot be, or nothing; where one rank of the channel has a reason, all must hide the memory.
  virtual std::string show_memory(std::span<const std::span<std::byte>> /*memory*/) {
    return cannot_show_memory();
  }
  /// Takes back what show_memory() was told.
  virtual void hide_memory() {}

  /// Whether calls between begin_capture() and end_capture() can become part of a CUDA graph instead of
  /// running.
  virtual bool capturable() const { return false; }
  /// Begins a capture; `fork` is an event of the stream that is being captured. Events of the calls that
  /// follow hold within the capture, which ends when that stream waits for the last of them.
  virtual void begin_capture(const Event& fork);
  virtual std::unique_ptr<CapturedCalls> end_capture();

  /// Payload bytes sent to other ranks since the channel was opened. Any thread may read these counters.
  std::uint64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }
  /// Calls since then other than send, recv and barrier.
  std::uint64_t collectives() const { return collectives_.load(std::memory_order_relaxed); }
  /// Seconds in which a call was in progress (its dependencies done, but not itself).
  virtual double busy_seconds() const {
    return 1e-9 * static_cast<double>(busy_ns_.load(std::memory_order_relaxed));
  }

  /// Sets a function that is called for each finished call, on the communication thread. Only host back ends
  /// call it; nccl leaves timing to its tools. Set it before the first call.
  void set_observer(std::function<void(const FinishedCall&)> observer) { observer_ = std::move(observer); }

  /// Sets where calls are recorded, under the label that was set last, which says what they are for and
  /// is copied. World::open calls this before the first call.
  void record_in(std::unique_ptr<ChannelRecord> record) { record_ = std::move(record); }
  void set_label(std::string_view label) { label_ = label; }
  /// Whether the host learns when a call ends without asking its event.
  virtual bool ends_seen() const { return true; }

 protected:
  /// Where calls are recorded; null when they are not.
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
