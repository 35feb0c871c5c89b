// Finds which rows of the embedding's table the ranks' tokens name, for plans that send no other rows
// (passes::rows). A rank tells every other rank which rows of that one's slice it uses, so that memory and
// messages do not grow with the number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/channel.hpp"
#include "plan/plan.hpp"

namespace weft::runtime {

class TokenRows {
 public:
  /// Makes the TokenRows of a plan that sends rows; null for a plan that sends whole units. The place on the
  /// tensor axis says which part of the vocabulary the rank's table has.
  static std::unique_ptr<TokenRows> make(const plan::Plan& plan, int tensor_rank,
                                         const std::function<std::unique_ptr<comm::Channel>()>& open_channel);
  /// Bytes that the TokenRows of this plan takes; 0 for a plan that sends whole units.
  static std::int64_t planned_bytes(const plan::Plan& plan);

  /// Notes the rows of tokens of this rank in an accumulation round, where its table has them.
  /// The first call after an exchange forgets all rounds' rows: no collective may still read by_round().
  void add(int round, std::span<const std::int32_t> tokens);
  /// Collective over the data axis; the host waits. From here on by_round() is what all ranks have added
  /// since the last exchange.
  void exchange();
  const std::vector<comm::UsedRows>& by_round() const { return by_round_; }
  /// Bytes that this object has taken.
  std::int64_t bytes() const;

 private:
  TokenRows(std::unique_ptr<comm::Channel> channel, const comm::RowSlices& slices, int rounds,
            std::int64_t first);

  std::unique_ptr<comm::Channel> channel_;
  comm::RowSlices slices_;
  std::int64_t first_;                      ///< the token of the table's first row
  std::vector<std::uint8_t> mine_;          ///< [rounds, slices_.table_bytes()]
  std::vector<std::uint8_t> told_, heard_;  ///< [ranks, rounds, slices_.slice_bytes()]
  std::vector<comm::UsedRows> by_round_;
  bool exchanged_ = false;
};

}  // namespace weft::runtime
