#include "comm/exchange.hpp"

#include <algorithm>
#include <cstring>

namespace weft::comm::detail {
namespace {
constexpr std::int64_t copy_step_bytes = 1 << 20;  // so that a long copy does not hold up the other channels
}  // namespace

void ExchangeRun::start(const Exchange& exchange, int rank, int size, int tag) {
  x_ = exchange;
  rank_ = rank;
  size_ = size;
  tag_ = tag;
  const std::int64_t longest = std::min(x_.slice, x_.total);
  rounds_ = longest == 0 ? 0 : (longest + x_.piece - 1) / x_.piece;
  slots_ = ring_peer_bytes(size) / x_.piece;
  issued_ = 0;
  retired_ = 0;
  round_ = 0;
  copied_ = x_.copy_from == x_.copy_to ? x_.copy_bytes : 0;
  bytes_sent_ = 0;
}

std::int64_t ExchangeRun::block_bytes(int block) const {
  return std::clamp<std::int64_t>(x_.total - block * x_.slice, 0, x_.slice);
}

std::int64_t ExchangeRun::piece_bytes(std::int64_t block, std::int64_t round) const {
  return std::clamp<std::int64_t>(block - round * x_.piece, 0, x_.piece);
}

std::byte* ExchangeRun::ring_slot(std::int64_t round, int peer) const {
  const int index = x_.peers->place[static_cast<std::size_t>(peer)];
  // Only the last round is shorter than a piece, so slots of a short exchange are dense: see ring_bytes().
  const std::int64_t length = piece_bytes(block_bytes(rank_), round);
  return x_.to + (round % slots_) * x_.peers->count * x_.piece + index * length;
}

bool ExchangeRun::is_with(int rank, int only) const {
  if (x_.peers->with[static_cast<std::size_t>(rank)] == 0) return false;
  return only < 0 || only == rank;
}

bool ExchangeRun::may_issue() const {
  if (issued_ == rounds_ * (size_ - 1) || issued_ - retired_ == messages_in_flight) return false;
  return x_.recv != Exchange::Part::ring || issued_ / (size_ - 1) < round_ + slots_;
}

// Round by round over all peers: a ring's round is combined as a whole, and a rank that is late holds the
// others up before they have filled its memory with messages that it has not asked for.
void ExchangeRun::issue(Transport& transport) {
  const bool ring = x_.recv == Exchange::Part::ring;
  const std::int64_t round = issued_ / (size_ - 1);
  const int step = 1 + static_cast<int>(issued_ % (size_ - 1));
  Pair& pair = this->pair(issued_++);
  pair = Pair{};

  const int to = (rank_ + step) % size_;
  const int from = (rank_ - step + size_) % size_;
  const std::int64_t offset = round * x_.piece;
  if (x_.recv != Exchange::Part::none && is_with(from, x_.recv_peer)) {
    const bool each = x_.recv == Exchange::Part::each;
    const std::int64_t bytes = piece_bytes(block_bytes(each ? from : rank_), round);
    std::byte* data = ring ? ring_slot(round, from) : x_.to + (each ? from * x_.slice : 0) + offset;
    if (bytes > 0) pair.recv = transport.recv(from, tag_, data, static_cast<std::size_t>(bytes));
  }
  if (x_.send != Exchange::Part::none && is_with(to, x_.send_peer)) {
    const bool each = x_.send == Exchange::Part::each;
    const std::int64_t bytes = piece_bytes(block_bytes(each ? to : rank_), round);
    const std::byte* data = x_.from + (each ? to * x_.slice : 0) + offset;
    if (bytes > 0) pair.send = transport.send(to, tag_, data, static_cast<std::size_t>(bytes));
    bytes_sent_ += static_cast<std::uint64_t>(bytes);
  }
}

bool ExchangeRun::copy_some() {
  if (copied_ == x_.copy_bytes) return false;
  const std::int64_t bytes = std::min(copy_step_bytes, x_.copy_bytes - copied_);
  std::memcpy(x_.copy_to + copied_, x_.copy_from + copied_, static_cast<std::size_t>(bytes));
  copied_ += bytes;
  return true;
}

// In order, so that a look at an exchange that waits costs one test, however much is in flight: MPI's test
// polls every connection when the message is not there yet.
bool ExchangeRun::progress(Transport* transport) {
  bool moved = false;
  for (; retired_ < issued_; ++retired_) {
    Pair& oldest = pair(retired_);
    if (!transport->test(oldest.recv) || !transport->test(oldest.send)) break;
    moved = true;
  }
  for (; may_issue(); moved = true) issue(*transport);
  return copy_some() || moved;
}

bool ExchangeRun::round_ready() const {
  if (x_.recv != Exchange::Part::ring || round_ == rounds_) return false;
  return retired_ >= (round_ + 1) * (size_ - 1);
}

bool ExchangeRun::finished() const {
  const bool combined = x_.recv != Exchange::Part::ring || round_ == rounds_;
  return retired_ == rounds_ * (size_ - 1) && copied_ == x_.copy_bytes && combined;
}

}  // namespace weft::comm::detail
