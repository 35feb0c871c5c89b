// The algorithms of the host channels: each collective is one or a few exchanges. Of B bytes, a rank sends
// - B (S-1)/S in an all_gather, a reduce_scatter or an all_to_all,
// - 2 B (S-1)/S in an all_reduce, or B (S-1) in a small one.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "comm/host/host_channel.hpp"
#include "comm/host/reduce.hpp"

namespace weft::comm::detail {
namespace {

using Part = Exchange::Part;

/// Up to this size one exchange with everybody is faster than two exchanges of slices.
constexpr std::int64_t small_bytes = 32 << 10;
/// Bytes of rows that are under way at once: as many as 10 Gbit/s takes in a millisecond.
constexpr std::int64_t staging_bytes = 1 << 20;
/// Bytes that a gather copies from a neighbour before other calls get their turn.
constexpr std::int64_t copied_at_once = 256 << 10;

const std::byte* bytes_of(const void* p) {
  return static_cast<const std::byte*>(p);
}
std::byte* bytes_of(void* p) {
  return static_cast<std::byte*>(p);
}

std::int64_t slice_elements(std::int64_t count, int size) {
  return (count + size - 1) / size;
}

}  // namespace

Through HostChannel::way_of(const PendingCall& o) const {
  if (window_ == nullptr) return Through::messages;
  const bool gathers = o.record.kind == CallKind::all_gather;
  if (gathers && gathers_ == SharedGathers::to_common)
    return window_->in_common(o.reduce.out) ? Through::common : Through::messages;
  const bool reads = gathers || o.record.kind == CallKind::reduce_scatter;
  return reads && window_->in_shown(o.reduce.in) ? Through::parts : Through::messages;
}

/// The ranks with which a call exchanges messages.
const Peers& HostChannel::partners(Through through) const {
  return through == Through::common ? counterparts_ : through == Through::parts ? abroad_ : others_;
}

/// Tells the team that this rank is at the meeting. What the phase exchanges waits until all ranks are.
void HostChannel::meet(PendingCall& o, int meeting) {
  window_->signals().arrive(lane(), o.serial, meeting);
  o.meeting = meeting;
}

// Sets up the exchange of the call's phase; returns false when there is none left.
//
// In a window the team meets twice. After the meeting before the exchange, nobody reads any more what a
// gather overwrites, and what a reduce-scatter reads is complete. After the meeting behind it, what was
// gathered is complete, and nobody reads a slice any more. Where all slices stand in place nothing is
// overwritten. There the team meets once, and what its ranks bring to that meeting is complete.
bool HostChannel::start_phase(PendingCall& o) {
  Exchange x;
  x.piece = chunk_bytes_;
  x.peers = &partners(o.through);
  x.from = bytes_of(o.reduce.in);
  x.to = bytes_of(o.reduce.out);
  x.slice = o.bytes;
  x.total = o.bytes * size();
  bool more = o.phase == 0;
  switch (o.record.kind) {
    case CallKind::all_gather:
      x.send = Part::own;
      x.recv = Part::each;
      x.copy_from = x.from;
      x.copy_to = x.to + rank() * x.slice;
      x.copy_bytes = x.slice;
      send_rows(o, Exchange::RowsOf::receiver, x);
      break;
    case CallKind::all_to_all:
      x.send = x.recv = Part::each;
      x.copy_from = x.from + rank() * x.slice;
      x.copy_to = x.to + rank() * x.slice;
      x.copy_bytes = x.slice;
      break;
    case CallKind::send:
      x.send = Part::own;
      x.send_peer = o.peer;
      break;
    case CallKind::recv:
      x.recv = Part::own;
      x.recv_peer = o.peer;
      break;
    case CallKind::reduce_scatter: more = reduce_phase(o, x); break;
    case CallKind::all_reduce: more = all_reduce_phase(o, x); break;
    case CallKind::broadcast: more = broadcast_phase(o, x); break;
    case CallKind::barrier: more = barrier_phase(o, x); break;
  }
  if (o.through != Through::messages) {
    const bool in_place =
        o.through == Through::common && x.copy_from == x.copy_to && counterparts_.count == 0;
    more = o.phase < (in_place ? 1 : 2);
    if (o.phase == 1) x = Exchange{.piece = chunk_bytes_, .peers = &others_};
    if (more) meet(o, o.phase + 1);
  }
  if (more) o.run.start(x, rank(), size(), o.tag);
  return more;
}

/// What ranks share they gather for all of them, so no rank's rows may be left out.
void HostChannel::send_rows(const PendingCall& o, Exchange::RowsOf of, Exchange& x) {
  if (o.reduce.rows == nullptr || o.through != Through::messages) return;
  x.rows = o.reduce.rows;
  x.rows_of = of;
  x.row_bytes = x.rows->slices.row_elements * static_cast<std::int64_t>(size_of(o.reduce.wire));
  staging_.resize(static_cast<std::size_t>(std::max(staging_bytes, 2 * x.piece)));
  x.staging = staging_;
}

bool HostChannel::reduce_phase(const PendingCall& o, Exchange& x) {
  x.send = Part::each;
  x.recv = Part::ring;
  x.to = bytes_of(o.reduce.scratch);
  x.piece = ring_piece_bytes(size(), chunk_bytes_);
  send_rows(o, Exchange::RowsOf::sender, x);
  return o.phase == 0;
}

// Reduces over all ranks. When it is small, everybody sends everything to everybody. Else slices are
// exchanged and combined, and then gathered. A piece may be combined into the buffer it was sent from,
// because a portion is complete only when its sends are.
bool HostChannel::all_reduce_phase(PendingCall& o, Exchange& x) {
  std::byte* buffer = bytes_of(o.reduce.out);
  const bool small = o.bytes <= small_bytes;
  if (!small) {
    x.slice = slice_elements(o.reduce.count, size()) * static_cast<std::int64_t>(size_of(o.reduce.wire));
    x.total = o.bytes;
  }
  const std::int64_t mine = std::min(rank() * x.slice, x.total);
  if (o.phase == 0) {
    x.piece = ring_piece_bytes(size(), chunk_bytes_);
    o.scratch.resize(static_cast<std::size_t>(ring_bytes(size(), x.slice)));
    x.send = small ? Part::own : Part::each;
    x.recv = Part::ring;
    x.from = buffer;
    x.to = o.scratch.data();
    return true;
  }
  x.send = Part::own;
  x.recv = Part::each;
  x.from = buffer + mine;
  x.to = buffer;
  return o.phase == 1 && !small;
}

// Broadcasts from the root. When it is small, the root sends to everybody. Else the root scatters slices,
// which are then gathered.
bool HostChannel::broadcast_phase(const PendingCall& o, Exchange& x) {
  const bool small = o.bytes <= small_bytes || size() == 2;
  const bool root = rank() == o.peer;
  if (!small) {
    x.slice = slice_elements(o.bytes, size());
    x.total = o.bytes;
  }
  std::byte* mine = x.to + (small ? 0 : std::min(rank() * x.slice, x.total));
  if (o.phase == 0) {
    x.from = x.to;
    x.send = !root ? Part::none : small ? Part::own : Part::each;
    x.recv = root ? Part::none : Part::own;
    x.recv_peer = o.peer;
    x.to = mine;
    return true;
  }
  x.send = Part::own;
  x.recv = Part::each;
  x.from = mine;
  return o.phase == 1 && !small;
}

// A barrier by dissemination: after step k each rank has heard of 2^(k+1) ranks.
bool HostChannel::barrier_phase(const PendingCall& o, Exchange& x) {
  static const std::byte token{1};
  static thread_local std::byte sink;
  const int step = o.phase < 31 ? 1 << o.phase : size();
  if (step >= size()) return false;
  x.send = x.recv = Part::own;
  x.send_peer = (rank() + step) % size();
  x.recv_peer = (rank() - step + size()) % size();
  x.from = &token;
  x.to = &sink;
  x.slice = 1;
  x.total = size();
  return true;
}

/// The address at which another rank's `in` can be read; null when it comes in messages.
const std::byte* HostChannel::in_neighbours_part(const PendingCall& o, int rank) const {
  const int member = o.through == Through::parts ? member_of_[static_cast<std::size_t>(rank)] : -1;
  return member < 0 ? nullptr : window_->part(member) + (bytes_of(o.reduce.in) - window_->own());
}

/// Whether a gather still has blocks to copy from the neighbours' parts.
bool HostChannel::copies_blocks(const PendingCall& o) const {
  return o.through == Through::parts && o.record.kind == CallKind::all_gather && o.phase == 0 &&
         o.copied < o.bytes * size();
}

/// Copies a piece of a neighbour's block. Blocks that come in messages, and the rank's own, are passed over.
void HostChannel::copy_block(PendingCall& o) {
  const auto from = static_cast<int>(o.copied / o.bytes);
  const std::byte* const block = from == rank() ? nullptr : in_neighbours_part(o, from);
  const std::int64_t begin = o.copied % o.bytes;
  const std::int64_t bytes = block == nullptr ? o.bytes : std::min(o.bytes - begin, copied_at_once);
  if (block != nullptr)
    std::memcpy(bytes_of(o.reduce.out) + o.copied, block + begin, static_cast<std::size_t>(bytes));
  o.copied += bytes;
}

// Combines, in rank order, the portions of an exchange whose pieces of this rank's block have all arrived.
void HostChannel::combine_portions(PendingCall& o) {
  const bool scatter = o.record.kind == CallKind::reduce_scatter;
  while (o.run.portion_ready()) {
    const std::int64_t wire_bytes = static_cast<std::int64_t>(size_of(o.reduce.wire));
    // Offset into this rank's slice, in elements.
    const std::int64_t first = o.run.portion_offset() / wire_bytes;
    const std::int64_t count = o.run.portion_bytes() / wire_bytes;
    const bool whole =
        !scatter && o.bytes <= small_bytes;  // in a small all_reduce every rank combines everything
    const std::int64_t stride = scatter ? o.reduce.count : slice_elements(o.reduce.count, size());
    const std::int64_t own = (whole ? 0 : rank() * stride) + first;
    const std::byte* in = bytes_of(scatter ? o.reduce.in : o.reduce.out);

    o.sources.clear();
    for (int r = 0; r < size(); ++r) {
      const std::byte* const vector = r == rank() ? in : in_neighbours_part(o, r);
      o.sources.push_back(vector != nullptr ? vector + own * wire_bytes : o.run.portion_piece(r));
    }
    if (scatter) {
      std::byte* out = bytes_of(o.reduce.out) + first * static_cast<std::int64_t>(size_of(o.reduce.out_type));
      ordered_sum(o.sources, out, count, o.reduce.wire, o.reduce.out_type, o.reduce.write);
    } else if (count > 0) {
      ordered_reduce(o.sources, bytes_of(o.reduce.out) + own * wire_bytes, count, o.reduce.wire, o.reduce_op);
    }
    o.run.release_portion();
  }
}

}  // namespace weft::comm::detail
