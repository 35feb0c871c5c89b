#include "comm/host/exchange.hpp"

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
  portions_ = longest == 0 ? 0 : (longest + x_.piece - 1) / x_.piece;
  slots_ = ring_peer_bytes(size) / x_.piece;
  issued_ = 0;
  retired_ = 0;
  portion_ = 0;
  copied_ = x_.copy_from == x_.copy_to ? x_.copy_bytes : 0;
  bytes_sent_ = 0;
  bytes_issued_ = 0;
  bytes_done_ = 0;
  staged_ = 0;
  unstaged_ = 0;
}

std::int64_t ExchangeRun::block_bytes(int block) const {
  return std::clamp<std::int64_t>(x_.total - block * x_.slice, 0, x_.slice);
}

std::int64_t ExchangeRun::piece_bytes(std::int64_t block, std::int64_t portion) const {
  return std::clamp<std::int64_t>(block - portion * x_.piece, 0, x_.piece);
}

std::byte* ExchangeRun::ring_slot(std::int64_t portion, int peer) const {
  const int index = x_.peers->place[static_cast<std::size_t>(peer)];
  // Only the last portion is shorter than a piece, so the slots of a short exchange are dense: see
  // ring_bytes().
  const std::int64_t length = piece_bytes(block_bytes(rank_), portion);
  return x_.to + (portion % slots_) * x_.peers->count * x_.piece + index * length;
}

bool ExchangeRun::is_with(int rank, int only) const {
  if (x_.peers->with[static_cast<std::size_t>(rank)] == 0) return false;
  return only < 0 || only == rank;
}

// Goes portion by portion over all peers: a ring's portion is combined as a whole. A rank that is late holds
// the others up before they have filled its memory with messages that it has not asked for.
ExchangeRun::Step ExchangeRun::step(std::int64_t i) const {
  const int distance = 1 + static_cast<int>(i % (size_ - 1));
  return {(rank_ + distance) % size_, (rank_ - distance + size_) % size_, i / (size_ - 1)};
}

bool ExchangeRun::sends(const Step& step) const {
  return x_.send != Exchange::Part::none && is_with(step.to, x_.send_peer);
}

bool ExchangeRun::receives(const Step& step) const {
  return x_.recv != Exchange::Part::none && is_with(step.from, x_.recv_peer);
}

ExchangeRun::Piece ExchangeRun::piece_of(Exchange::Part part, int peer, std::int64_t portion) const {
  const int block = part == Exchange::Part::each ? peer : rank_;
  return {block * x_.slice + portion * x_.piece, piece_bytes(block_bytes(block), portion)};
}

std::byte* ExchangeRun::received_at(const Step& step) const {
  if (x_.recv == Exchange::Part::ring) return ring_slot(step.portion, step.from);
  const std::int64_t block = x_.recv == Exchange::Part::each ? step.from * x_.slice : 0;
  return x_.to + block + step.portion * x_.piece;
}

bool ExchangeRun::may_issue() const {
  if (issued_ == portions_ * (size_ - 1) || issued_ - retired_ == messages_in_flight) return false;
  if (x_.recv == Exchange::Part::ring && issued_ / (size_ - 1) >= portion_ + slots_) return false;
  if (x_.rows == nullptr) return true;
  const Step next = step(issued_);
  if (!sends(next)) return true;
  const std::int64_t bytes = used_bytes(sent_piece(next), user(rank_, next.to));
  return staging_end(bytes) - unstaged_ <= static_cast<std::int64_t>(x_.staging.size());
}

void ExchangeRun::issue(Transport& transport) {
  const Step step = this->step(issued_);
  Pair& pair = this->pair(issued_++);
  pair = Pair{};
  if (receives(step)) {
    const Piece piece = received_piece(step);
    std::byte* data = received_at(step);
    std::int64_t bytes = piece.bytes;
    if (x_.rows != nullptr) {
      bytes = used_bytes(piece, user(step.from, rank_));
      data += piece.bytes - bytes;  // spreading from there overwrites nothing before it is read
    }
    if (bytes > 0) pair.recv = transport.recv(step.from, tag_, data, static_cast<std::size_t>(bytes));
    pair.bytes = bytes;
  }
  if (sends(step)) {
    const Piece piece = sent_piece(step);
    const std::int64_t block = x_.send == Exchange::Part::each ? step.to * x_.slice : 0;
    const std::byte* data = x_.from + block + step.portion * x_.piece;
    std::int64_t bytes = piece.bytes;
    if (x_.rows != nullptr) {
      const int user = this->user(rank_, step.to);
      bytes = used_bytes(piece, user);
      data = stage(piece, user, data, bytes);
    }
    if (bytes > 0) pair.send = transport.send(step.to, tag_, data, static_cast<std::size_t>(bytes));
    bytes_sent_ += static_cast<std::uint64_t>(bytes);
    if (pair.bytes == 0) pair.bytes = bytes;
  }
  pair.staged = staged_;
  bytes_issued_ += pair.bytes;
}

int ExchangeRun::user(int sender, int receiver) const {
  return x_.rows_of == Exchange::RowsOf::sender ? sender : receiver;
}

/// Calls visit(offset, bytes) for each stretch of the piece in rows that `user` uses, by rising offset.
template <class Visit>
void ExchangeRun::each_used(const Piece& piece, int user, Visit&& visit) const {
  const std::int64_t end = piece.begin + piece.bytes;
  for (std::int64_t row = piece.begin / x_.row_bytes; row * x_.row_bytes < end; ++row) {
    if (!x_.rows->uses(user, row)) continue;
    const std::int64_t from = std::max(piece.begin, row * x_.row_bytes);
    const std::int64_t to = std::min(end, (row + 1) * x_.row_bytes);
    visit(from - piece.begin, to - from);
  }
}

std::int64_t ExchangeRun::used_bytes(const Piece& piece, int user) const {
  std::int64_t sum = 0;
  each_used(piece, user, [&](std::int64_t /*offset*/, std::int64_t bytes) { sum += bytes; });
  return sum;
}

/// The value that staged_ will have with one more message of `bytes`, which lies in one stretch.
std::int64_t ExchangeRun::staging_end(std::int64_t bytes) const {
  const auto capacity = static_cast<std::int64_t>(x_.staging.size());
  const std::int64_t left = capacity - staged_ % capacity;
  return staged_ + (bytes <= left ? 0 : left) + bytes;
}

const std::byte* ExchangeRun::stage(const Piece& piece, int user, const std::byte* from, std::int64_t bytes) {
  staged_ = staging_end(bytes);
  std::byte* const begin =
      x_.staging.data() + (staged_ - bytes) % static_cast<std::int64_t>(x_.staging.size());
  std::byte* to = begin;
  each_used(piece, user, [&](std::int64_t offset, std::int64_t length) {
    std::memcpy(to, from + offset, static_cast<std::size_t>(length));
    to += length;
  });
  return begin;
}

/// Moves the rows of a message from the end of their piece to their places in it.
void ExchangeRun::spread(const Step& step) const {
  const Piece piece = received_piece(step);
  const int user = this->user(step.from, rank_);
  std::byte* const data = received_at(step);
  const std::byte* next = data + piece.bytes - used_bytes(piece, user);
  std::int64_t done = 0;
  const auto fill_to = [&](std::int64_t offset) {
    if (x_.recv == Exchange::Part::ring) std::memset(data + done, 0, static_cast<std::size_t>(offset - done));
  };
  each_used(piece, user, [&](std::int64_t offset, std::int64_t bytes) {
    fill_to(offset);
    std::memmove(data + offset, next, static_cast<std::size_t>(bytes));
    next += bytes;
    done = offset + bytes;
  });
  fill_to(piece.bytes);
}

bool ExchangeRun::copy_some() {
  if (copied_ == x_.copy_bytes) return false;
  const std::int64_t bytes = std::min(copy_step_bytes, x_.copy_bytes - copied_);
  std::memcpy(x_.copy_to + copied_, x_.copy_from + copied_, static_cast<std::size_t>(bytes));
  copied_ += bytes;
  return true;
}

// Messages are tested in order. A look at an exchange that waits then costs one test, however much is under
// way: MPI's test polls every connection when the message is not there yet.
bool ExchangeRun::progress(Transport* transport) {
  bool moved = false;
  for (; retired_ < issued_; ++retired_) {
    Pair& oldest = pair(retired_);
    if (!transport->test(oldest.recv) || !transport->test(oldest.send)) break;
    if (x_.rows != nullptr) {
      const Step step = this->step(retired_);
      if (receives(step)) spread(step);
      unstaged_ = oldest.staged;
    }
    bytes_done_ += oldest.bytes;
    moved = true;
  }
  for (; may_issue(); moved = true) issue(*transport);
  return copy_some() || moved;
}

bool ExchangeRun::portion_ready() const {
  if (x_.recv != Exchange::Part::ring || portion_ == portions_) return false;
  return retired_ >= (portion_ + 1) * (size_ - 1);
}

bool ExchangeRun::finished() const {
  const bool combined = x_.recv != Exchange::Part::ring || portion_ == portions_;
  return retired_ == portions_ * (size_ - 1) && copied_ == x_.copy_bytes && combined;
}

}  // namespace weft::comm::detail
