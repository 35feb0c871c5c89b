// The one message pattern that all host collectives are made of: blocks between this rank and its peers, cut
// into pieces, go pairwise (step k: send to rank + k, receive from rank - k), with some of them under way at
// once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/host/transport.hpp"
#include "comm/portions.hpp"
#include "comm/rows.hpp"

namespace weft::comm::detail {

/// The ranks with which an exchange is made.
struct Peers {
  std::vector<char> with;  ///< by rank: whether it is one of them
  std::vector<int> place;  ///< by rank: its place among them
  int count = 0;
};

/// What an exchange moves. Data of `total` bytes are cut into one block of `slice` bytes for each rank; the
/// last blocks may be short or empty.
struct Exchange {
  enum class Part : std::uint8_t {
    none,
    own,   ///< this rank's block; the pointer points at it
    each,  ///< the peer's block; the pointer points at rank 0's
    /// Only for receiving: this rank's block from every peer, into portions of scratch, where each peer has
    /// ring_peer_bytes().
    ring,
  };
  Part send = Part::none;
  Part recv = Part::none;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t slice = 0;
  std::int64_t total = 0;
  std::int64_t piece = 0;  ///< bytes of one message
  int send_peer = -1;      ///< the only peer that is sent to; -1: all
  int recv_peer = -1;
  const Peers* peers = nullptr;
  /// Set when the data are a table of rows of row_bytes. Of each piece only those rows travel that the sender
  /// or the receiver uses. In a ring the other rows arrive as zeros.
  const UsedRows* rows = nullptr;
  enum class RowsOf : std::uint8_t { sender, receiver } rows_of = RowsOf::sender;
  std::int64_t row_bytes = 0;
  std::span<std::byte> staging = {};  ///< where messages with rows are packed; two pieces or more
  /// A local copy that belongs to the call: copy_bytes to copy_to.
  const std::byte* copy_from = nullptr;
  std::byte* copy_to = nullptr;
  std::int64_t copy_bytes = 0;
};

/// The state of one exchange. Progress is made by calls to progress(); nothing blocks, nothing is allocated.
class ExchangeRun {
 public:
  void start(const Exchange& exchange, int rank, int size, int tag);
  /// Posts, tests and copies what it can; returns whether anything moved.
  bool progress(Transport* transport);
  /// Bytes of the messages under way, and below of those that have ended since start(). They are bytes
  /// received, or bytes sent where nothing is received.
  std::int64_t bytes_in_flight() const { return bytes_issued_ - bytes_done_; }
  std::int64_t bytes_done() const { return bytes_done_; }
  bool finished() const;
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  /// The portions of a ring, in order: while portion_ready(), the caller combines the pieces of portion_*()
  /// and calls release_portion().
  bool portion_ready() const;
  std::int64_t portion_offset() const { return portion_ * x_.piece; }  ///< offset into this rank's block
  std::int64_t portion_bytes() const { return piece_bytes(block_bytes(rank_), portion_); }
  const std::byte* portion_piece(int peer) const { return ring_slot(portion_, peer); }
  void release_portion() { ++portion_; }

 private:
  struct Pair {
    Request send;
    Request recv;
    std::int64_t bytes = 0;   ///< bytes received, or sent where nothing is received
    std::int64_t staged = 0;  ///< how many bytes had been staged up to here
  };
  /// The ranks of a pair, and the portion that it belongs to.
  struct Step {
    int to, from;
    std::int64_t portion;
  };
  /// A stretch of the whole data, in bytes.
  struct Piece {
    std::int64_t begin, bytes;
  };

  std::int64_t block_bytes(int block) const;
  std::int64_t piece_bytes(std::int64_t block, std::int64_t portion) const;
  Step step(std::int64_t i) const;
  bool sends(const Step& step) const;
  bool receives(const Step& step) const;
  Piece piece_of(Exchange::Part part, int peer, std::int64_t portion) const;
  Piece sent_piece(const Step& step) const { return piece_of(x_.send, step.to, step.portion); }
  Piece received_piece(const Step& step) const { return piece_of(x_.recv, step.from, step.portion); }
  std::byte* received_at(const Step& step) const;  ///< where the whole piece has its place
  int user(int sender, int receiver) const;
  template <class Visit>
  void each_used(const Piece& piece, int user, Visit&& visit) const;
  std::int64_t used_bytes(const Piece& piece, int user) const;
  std::int64_t staging_end(std::int64_t bytes) const;
  const std::byte* stage(const Piece& piece, int user, const std::byte* from, std::int64_t bytes);
  void spread(const Step& step) const;
  std::byte* ring_slot(std::int64_t portion, int peer) const;
  Pair& pair(std::int64_t i) { return pairs_[static_cast<std::size_t>(i % messages_in_flight)]; }
  bool is_with(int rank, int only) const;
  bool may_issue() const;
  void issue(Transport& transport);
  bool copy_some();

  Exchange x_;
  int rank_ = 0;
  int size_ = 1;
  int tag_ = 0;
  std::int64_t portions_ = 0;
  std::int64_t slots_ = 0;    ///< how many of the ring's portions its scratch holds
  std::int64_t issued_ = 0;   ///< pairs begun, of portions_ * (size_ - 1)
  std::int64_t retired_ = 0;  ///< pairs completed in order, of those begun
  std::int64_t portion_ = 0;  ///< the ring's first portion that is not yet combined
  std::int64_t copied_ = 0;
  /// Bytes staged and unstaged since the start, with those left out at the staging's end.
  std::int64_t staged_ = 0, unstaged_ = 0;
  std::int64_t bytes_issued_ = 0, bytes_done_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::array<Pair, messages_in_flight> pairs_;  ///< the pairs from retired_ to issued_
};

}  // namespace weft::comm::detail
