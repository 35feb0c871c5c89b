// Which rows of the embedding's table the ranks' tokens name, for plans that send no others (passes::rows).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/channel.hpp"
#include "plan/plan.hpp"

namespace weft::train {

class TokenRows {
 public:
  /// Null for a plan that sends whole units.
  static std::unique_ptr<TokenRows> make(const plan::Plan& plan,
                                         const std::function<std::unique_ptr<comm::Channel>()>& open_channel);

  /// Of this rank's tokens [any number of them, each below the table's rows] in an accumulation round.
  void add(int round, std::span<const std::int32_t> tokens);
  /// Collective over the data axis, and the host waits: from here on by_round() is what all ranks have added
  /// since the last exchange.
  void exchange();
  const std::vector<comm::UsedRows>& by_round() const { return by_round_; }

 private:
  TokenRows(std::unique_ptr<comm::Channel> channel, std::int64_t rows, std::int64_t row_elements, int rounds);

  std::unique_ptr<comm::Channel> channel_;
  std::int64_t row_bytes_;               ///< bytes of a bit a row
  std::vector<std::uint8_t> mine_;       ///< [rounds, row_bytes_]
  std::vector<std::uint8_t> everyones_;  ///< [ranks, rounds, row_bytes_]
  std::vector<comm::UsedRows> by_round_;
};

}  // namespace weft::train
