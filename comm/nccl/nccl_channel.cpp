#include "comm/nccl/nccl_channel.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "comm/nccl/nccl_sum.hpp"
#include "comm/portions.hpp"

namespace weft::comm::detail {
namespace {

ncclDataType_t nccl_type(DType t) {
  switch (t) {
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::f64: return ncclFloat64;
    case DType::i32: return ncclInt32;
    case DType::i64: return ncclInt64;
    case DType::u32: return ncclUint32;
    case DType::u64: return ncclUint64;
    case DType::u16:
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2: break;
  }
  WEFT_REQUIRE(false, "NCCL cannot reduce {}", weft::name_of(t));
  return ncclUint8;
}

ncclRedOp_t nccl_op(ReduceOp op) {
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::max ? ncclMax : ncclMin;
}

std::size_t bytes_of(std::int64_t count, DType t) {
  return static_cast<std::size_t>(count) * size_of(t);
}

const std::byte* at(const void* p, std::int64_t elements, DType t) {
  return static_cast<const std::byte*>(p) + elements * static_cast<std::int64_t>(size_of(t));
}
std::byte* at(void* p, std::int64_t elements, DType t) {
  return static_cast<std::byte*>(p) + elements * static_cast<std::int64_t>(size_of(t));
}

/// Whether NCCL can write its result where it belongs.
bool direct(const ReduceScatter& op) {
  return op.write == WriteMode::replace && op.wire == op.out_type;
}

}  // namespace

void OpenCommunicators::add(ncclComm_t comm, const std::string& channel) {
  const std::lock_guard lock(mutex_);
  channels_.emplace(comm, channel);
}

void OpenCommunicators::remove(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  channels_.erase(comm);
}

std::string OpenCommunicators::failure() const {
  const std::lock_guard lock(mutex_);  // none of them ends meanwhile
  for (const auto& [comm, channel] : channels_) {
    ncclResult_t met = ncclSuccess;
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &met); asked != ncclSuccess) met = asked;
    if (met == ncclSuccess || met == ncclInProgress) continue;
    return fmt::format(
        "NCCL has failed on channel {} ({}: {}); look at the other ranks and at the network, and start with "
        "NCCL_DEBUG=WARN to learn more",
        channel, ncclGetErrorString(met), ncclGetLastError(comm));
  }
  return {};
}

NcclChannel::NcclChannel(int rank, int size, Lane lane, std::string name, ncclComm_t comm,
                         cudaStream_t stream, int most_blocks, OpenCommunicators& open)
    : Channel(rank, size, lane, std::move(name)),
      comm_(comm),
      stream_(stream),
      open_(open),
      timeline_(stream),
      peers_(comm, rank, size, most_blocks) {
  CHECK_CUDA(cudaMalloc(&token_, sizeof(float)));
  CHECK_CUDA(cudaMemset(token_, 0, sizeof(float)));
  deferred_.reserve(64);
  open_.add(comm_, Channel::name());
}

NcclChannel::~NcclChannel() {
  open_.remove(comm_);
  // Whatever ends a communicator, ncclCommAbort included, waits for its other ranks on the host, and they may
  // never come. Freeing memory would wait for all of the device, collectives of other channels included.
  if (std::uncaught_exceptions() > 0) return;
  cudaStreamSynchronize(stream_);
  NcclChannel::forget_memory();
  ncclCommDestroy(comm_);
  cudaFree(token_);
  cudaStreamDestroy(stream_);
}

class NcclChannel::Captured final : public CapturedCalls {
 public:
  Captured(NcclChannel& channel, StreamTimeline::Intervals intervals, std::uint64_t sent,
           std::uint64_t collectives)
      : channel_(channel), intervals_(std::move(intervals)), sent_(sent), collectives_(collectives) {}

  void count_run() override {
    channel_.timeline_.count(intervals_);
    channel_.bytes_sent_.fetch_add(sent_, std::memory_order_relaxed);
    channel_.collectives_.fetch_add(collectives_, std::memory_order_relaxed);
  }

 private:
  NcclChannel& channel_;
  StreamTimeline::Intervals intervals_;
  std::uint64_t sent_, collectives_;
};

// Where registration is not supported, NCCL says success without a handle, or an error that leaves the
// communicator as it was.
bool NcclChannel::register_memory(std::byte* memory, std::size_t bytes) {
  if (bytes == 0) return true;
  void* handle = nullptr;
  if (ncclCommRegister(comm_, memory, bytes, &handle) != ncclSuccess) {
    cudaGetLastError();  // this error is nobody else's
    return false;
  }
  if (handle == nullptr) return false;
  registrations_.push_back(handle);
  return true;
}

std::string NcclChannel::cannot_show_memory() const {
  return peers_.cannot_show();
}

std::string NcclChannel::show_memory(std::span<const std::span<std::byte>> memory) {
  return peers_.show(memory);
}

void NcclChannel::hide_memory() {
  peers_.hide();
}

void NcclChannel::forget_memory() {
  peers_.hide();
  for (void* handle : registrations_) ncclCommDeregister(comm_, handle);
  registrations_.clear();
}

void NcclChannel::begin_capture(const Event& fork) {
  sent_before_ = bytes_sent();
  collectives_before_ = collectives();
  timeline_.begin_capture();
  timeline_.wait({&fork, 1});
}

std::unique_ptr<CapturedCalls> NcclChannel::end_capture() {
  auto captured = std::make_unique<Captured>(*this, timeline_.end_capture(), bytes_sent() - sent_before_,
                                             collectives() - collectives_before_);
  bytes_sent_.store(sent_before_, std::memory_order_relaxed);
  collectives_.store(collectives_before_, std::memory_order_relaxed);
  return captured;
}

Event NcclChannel::begin(CallKind kind, Deps deps, std::size_t bytes, int peer) {
  if (kind != CallKind::send && kind != CallKind::recv && kind != CallKind::barrier)
    collectives_.fetch_add(1, std::memory_order_relaxed);
  const Recorder::Ticket ticket = record_enqueued(kind, static_cast<std::int64_t>(bytes), peer);
  timeline_.wait(deps);
  if (record() != nullptr) record()->started(ticket);
  if (!grouped_) timeline_.begin();
  return {&timeline_, timeline_.last() + 1};
}

Event NcclChannel::end(std::uint64_t sent) {
  bytes_sent_.fetch_add(sent, std::memory_order_relaxed);
  // In a group, group_end records the event: before that, nothing is on the stream.
  return grouped_ ? Event{&timeline_, timeline_.last() + 1} : timeline_.end();
}

void NcclChannel::group_begin() {
  grouped_ = true;
  CHECK_NCCL(ncclGroupStart());
}

void NcclChannel::group_end() {
  timeline_.begin();  // behind what the members wait for, because their waiting is no work
  CHECK_NCCL(ncclGroupEnd());
  reduce_all(deferred_);
  deferred_.clear();
  grouped_ = false;
  timeline_.end();
}

Event NcclChannel::all_gather(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) {
  begin(CallKind::all_gather, deps, bytes_of(count, dtype));
  const std::size_t bytes = bytes_of(count, dtype);
  CHECK_NCCL(ncclAllGather(in, out, bytes, ncclUint8, comm_, stream_));
  return end(bytes * static_cast<std::size_t>(size() - 1));
}

// Operands lie at the same place on all ranks, so that all of them refuse a call without scratch, or none.
Event NcclChannel::reduce_scatter(Deps deps, const ReduceScatter& what) {
  WEFT_REQUIRE(what.scratch != nullptr || size() == 1 || what.count == 0 || way_of(what) != Way::messages,
               "channel {}: a reduce-scatter has no scratch for messages, and its operand does not lie in "
               "memory that the other ranks read; schedule.peer_reads = false plans scratch",
               name());
  begin(CallKind::reduce_scatter, deps, bytes_of(what.count, what.wire));
  if (grouped_) {
    deferred_.push_back(what);
  } else {
    reduce_all({&what, 1});
  }
  return end(bytes_of(what.count, what.wire) * static_cast<std::size_t>(size() - 1));
}

Event NcclChannel::all_reduce(Deps deps, void* buffer, std::int64_t count, DType dtype, ReduceOp op) {
  begin(CallKind::all_reduce, deps, bytes_of(count, dtype));
  CHECK_NCCL(ncclAllReduce(buffer, buffer, static_cast<std::size_t>(count), nccl_type(dtype), nccl_op(op),
                           comm_, stream_));
  const auto ranks = static_cast<std::size_t>(size());
  return end(2 * bytes_of(count, dtype) * (ranks - 1) / ranks);
}

Event NcclChannel::broadcast(Deps deps, void* buffer, std::int64_t bytes, int root) {
  begin(CallKind::broadcast, deps, static_cast<std::size_t>(bytes), root);
  CHECK_NCCL(ncclBroadcast(buffer, buffer, static_cast<std::size_t>(bytes), ncclUint8, root, comm_, stream_));
  return end(rank() == root ? static_cast<std::uint64_t>(bytes) : 0);
}

Event NcclChannel::all_to_all(Deps deps, const void* in, void* out, std::int64_t count, DType dtype) {
  begin(CallKind::all_to_all, deps, bytes_of(count, dtype));
  const std::size_t bytes = bytes_of(count, dtype);
  CHECK_NCCL(ncclGroupStart());
  for (int r = 0; r < size(); ++r) {
    CHECK_NCCL(ncclSend(at(in, r * count, dtype), bytes, ncclUint8, r, comm_, stream_));
    CHECK_NCCL(ncclRecv(at(out, r * count, dtype), bytes, ncclUint8, r, comm_, stream_));
  }
  CHECK_NCCL(ncclGroupEnd());
  return end(bytes * static_cast<std::size_t>(size() - 1));
}

Event NcclChannel::send(Deps deps, const void* buffer, std::int64_t bytes, int peer) {
  begin(CallKind::send, deps, static_cast<std::size_t>(bytes), peer);
  CHECK_NCCL(ncclSend(buffer, static_cast<std::size_t>(bytes), ncclUint8, peer, comm_, stream_));
  return end(static_cast<std::uint64_t>(bytes));
}

Event NcclChannel::recv(Deps deps, void* buffer, std::int64_t bytes, int peer) {
  begin(CallKind::recv, deps, static_cast<std::size_t>(bytes), peer);
  CHECK_NCCL(ncclRecv(buffer, static_cast<std::size_t>(bytes), ncclUint8, peer, comm_, stream_));
  return end(0);
}

Event NcclChannel::barrier(Deps deps) {
  begin(CallKind::barrier, deps, 0);
  CHECK_NCCL(ncclAllReduce(token_, token_, 1, ncclFloat32, ncclSum, comm_, stream_));
  return end(0);
}

// Enqueues the messages of one portion: `count` elements, from `first` on, of each rank's slice.
void NcclChannel::exchange_portion(const ReduceScatter& op, std::int64_t first, std::int64_t count) {
  const std::size_t bytes = bytes_of(count, op.wire);
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    CHECK_NCCL(ncclSend(at(op.in, r * op.count + first, op.wire), bytes, ncclUint8, r, comm_, stream_));
    std::byte* piece = at(op.scratch, (r < rank() ? r : r - 1) * count, op.wire);
    CHECK_NCCL(ncclRecv(piece, bytes, ncclUint8, r, comm_, stream_));
  }
}

NcclChannel::Way NcclChannel::way_of(const ReduceScatter& op) const {
  if (op.order == ReduceOrder::native) return Way::library;
  return peers_.has(op.in, bytes_of(size() * op.count, op.wire)) ? Way::peer_reads : Way::messages;
}

// Runs reduce-scatters. Those by messages advance together, so that a bucket of several units costs one
// launch for each portion: a portion is exchanged, and then added in rank order. Where slices are read from
// peers, each unit is one kernel of its own; that costs a bucket two meetings a unit, some microseconds, and
// no kernel needs a list of units in device memory. The library's own sum is made beside the first portion,
// and is added onto the output afterwards where it cannot go there directly.
void NcclChannel::reduce_all(std::span<const ReduceScatter> ops) {
  const std::int64_t portion_bytes = ring_peer_bytes(size());
  std::int64_t portions = 0;
  for (const ReduceScatter& op : ops) {
    const auto slice = static_cast<std::int64_t>(bytes_of(op.count, op.wire));
    switch (way_of(op)) {
      case Way::messages: portions = std::max(portions, (slice + portion_bytes - 1) / portion_bytes); break;
      case Way::peer_reads: peers_.reduce_scatter(stream_, op); break;
      case Way::library: portions = std::max<std::int64_t>(portions, 1); break;
    }
  }
  const auto piece = [&](const ReduceScatter& op, std::int64_t portion) {
    const std::int64_t most = portion_bytes / static_cast<std::int64_t>(size_of(op.wire));
    return std::clamp<std::int64_t>(op.count - portion * most, 0, most);
  };
  for (std::int64_t portion = 0; portion < portions; ++portion) {
    CHECK_NCCL(ncclGroupStart());
    for (const ReduceScatter& op : ops) {
      const std::int64_t first = portion * (portion_bytes / static_cast<std::int64_t>(size_of(op.wire)));
      const Way way = way_of(op);
      if (way == Way::messages) {
        if (piece(op, portion) > 0) exchange_portion(op, first, piece(op, portion));
      } else if (way == Way::library && portion == 0) {
        CHECK_NCCL(ncclReduceScatter(op.in, direct(op) ? op.out : op.scratch,
                                     static_cast<std::size_t>(op.count), nccl_type(op.wire), ncclSum, comm_,
                                     stream_));
      }
    }
    CHECK_NCCL(ncclGroupEnd());
    for (const ReduceScatter& op : ops) {
      DeviceSum sum{op.in, op.scratch, op.out, op.count, rank(), size(), op.wire, op.out_type, op.write};
      const Way way = way_of(op);
      if (way == Way::messages) {
        const std::int64_t first = portion * (portion_bytes / static_cast<std::int64_t>(size_of(op.wire)));
        sum.count = piece(op, portion);
        sum.own = at(op.in, rank() * op.count + first, op.wire);
        sum.out = at(op.out, first, op.out_type);
        CHECK_CUDA(static_cast<cudaError_t>(ordered_sum_on_device(stream_, sum)));
      } else if (way == Way::library && portion == 0 && !direct(op)) {
        sum.own = op.scratch;
        sum.rank = 0;
        sum.size = 1;
        CHECK_CUDA(static_cast<cudaError_t>(ordered_sum_on_device(stream_, sum)));
      }
    }
  }
}

}  // namespace weft::comm::detail
