#include "comm/exchange.hpp"

#include <algorithm>
#include <cstring>

namespace weft::comm::detail {
namespace {
constexpr std::int64_t pieces_in_flight = 4;
constexpr std::int64_t copy_step_bytes = 1 << 20;  // so that a long copy does not hold up the other channels
}  // namespace

void ExchangeRun::start(const Exchange& exchange, int rank, int size, int tag) {
  x_ = exchange;
  rank_ = rank;
  size_ = size;
  tag_ = tag;
  const std::int64_t longest = std::min(x_.slice, x_.total);
  rounds_ = longest == 0 ? 0 : (longest + x_.piece - 1) / x_.piece;
  issued_ = 0;
  round_ = 0;
  copied_ = x_.copy_from == x_.copy_to ? x_.copy_bytes : 0;
  bytes_in_flight_ = 0;
  bytes_sent_ = 0;
  active_ = 0;
  missing_.fill(0);
}

std::int64_t ExchangeRun::block_bytes(int block) const {
  return std::clamp<std::int64_t>(x_.total - block * x_.slice, 0, x_.slice);
}

std::int64_t ExchangeRun::piece_bytes(std::int64_t block, std::int64_t round) const {
  return std::clamp<std::int64_t>(block - round * x_.piece, 0, x_.piece);
}

std::byte* ExchangeRun::ring_slot(std::int64_t round, int peer) const {
  const int index = peer < rank_ ? peer : peer - 1;
  // Only the last round is shorter than a piece, so slots of a short exchange are dense: see ring_bytes().
  const std::int64_t length = piece_bytes(block_bytes(rank_), round);
  return x_.to + (round % rounds_in_flight) * (size_ - 1) * x_.piece + index * length;
}

bool ExchangeRun::may_issue() const {
  if (issued_ == rounds_ * (size_ - 1) || active_ == max_pairs) return false;
  if (x_.recv == Exchange::Part::ring && issued_ / (size_ - 1) >= round_ + rounds_in_flight) return false;
  return active_ == 0 || bytes_in_flight_ + x_.piece <= pieces_in_flight * x_.piece;
}

// A ring goes round by round over all peers, since a round is combined as a whole; the others go peer by
// peer, so that at any time each rank sends to one rank and receives from one (a shift permutation of the
// network).
void ExchangeRun::issue(Transport& transport, Pair& pair) {
  const bool ring = x_.recv == Exchange::Part::ring;
  const std::int64_t round = ring ? issued_ / (size_ - 1) : issued_ % rounds_;
  const int step = 1 + static_cast<int>(ring ? issued_ % (size_ - 1) : issued_ / rounds_);
  ++issued_;
  if (ring && step == 1) missing_[static_cast<std::size_t>(round % rounds_in_flight)] = size_ - 1;

  const int to = (rank_ + step) % size_;
  const int from = (rank_ - step + size_) % size_;
  const std::int64_t offset = round * x_.piece;
  pair = Pair{};
  pair.round = round;
  if (x_.recv != Exchange::Part::none && (x_.recv_peer < 0 || x_.recv_peer == from)) {
    const bool each = x_.recv == Exchange::Part::each;
    const std::int64_t bytes = piece_bytes(block_bytes(each ? from : rank_), round);
    std::byte* data = ring ? ring_slot(round, from) : x_.to + (each ? from * x_.slice : 0) + offset;
    if (bytes > 0) pair.recv = transport.recv(from, tag_, data, static_cast<std::size_t>(bytes));
    pair.bytes = bytes;
  }
  if (x_.send != Exchange::Part::none && (x_.send_peer < 0 || x_.send_peer == to)) {
    const bool each = x_.send == Exchange::Part::each;
    const std::int64_t bytes = piece_bytes(block_bytes(each ? to : rank_), round);
    const std::byte* data = x_.from + (each ? to * x_.slice : 0) + offset;
    if (bytes > 0) pair.send = transport.send(to, tag_, data, static_cast<std::size_t>(bytes));
    pair.bytes = std::max(pair.bytes, bytes);
    bytes_sent_ += static_cast<std::uint64_t>(bytes);
  }
  pair.active = true;
  bytes_in_flight_ += pair.bytes;
  ++active_;
}

bool ExchangeRun::copy_some() {
  if (copied_ == x_.copy_bytes) return false;
  const std::int64_t bytes = std::min(copy_step_bytes, x_.copy_bytes - copied_);
  std::memcpy(x_.copy_to + copied_, x_.copy_from + copied_, static_cast<std::size_t>(bytes));
  copied_ += bytes;
  return true;
}

bool ExchangeRun::progress(Transport* transport) {
  bool moved = false;
  for (Pair& pair : pairs_) {
    if (pair.active && transport->test(pair.recv) && transport->test(pair.send)) {
      pair.active = false;
      --active_;
      bytes_in_flight_ -= pair.bytes;
      --missing_[static_cast<std::size_t>(pair.round % rounds_in_flight)];
      moved = true;
    }
    if (!pair.active && may_issue()) {
      issue(*transport, pair);
      moved = true;
    }
  }
  return copy_some() || moved;
}

bool ExchangeRun::round_ready() const {
  if (x_.recv != Exchange::Part::ring || round_ == rounds_) return false;
  // The round's last pair has been issued, and all its pairs are complete.
  return issued_ >= (round_ + 1) * (size_ - 1) &&
         missing_[static_cast<std::size_t>(round_ % rounds_in_flight)] == 0;
}

bool ExchangeRun::finished() const {
  const bool combined = x_.recv != Exchange::Part::ring || round_ == rounds_;
  return issued_ == rounds_ * (size_ - 1) && active_ == 0 && copied_ == x_.copy_bytes && combined;
}

}  // namespace weft::comm::detail
