#include "train/token_rows.hpp"

#include <algorithm>
#include <utility>

namespace weft::train {

std::unique_ptr<TokenRows> TokenRows::make(
    const plan::Plan& plan, const std::function<std::unique_ptr<comm::Channel>()>& open_channel) {
  std::int64_t rows = 0, row_elements = 0;
  int rounds = 0;
  for (const ir::Node& node : plan.graph.nodes()) {
    if (!node.attributes.has(ir::Attr::used)) continue;
    row_elements = node.attributes.integer(ir::Attr::row);
    rows = plan.graph.unit(plan.graph.value(node.outputs[0]).unit).elements / row_elements;
    rounds = std::max(rounds, node.round + 1);
  }
  if (rounds == 0) return nullptr;
  return std::unique_ptr<TokenRows>(new TokenRows(open_channel(), rows, row_elements, rounds));
}

TokenRows::TokenRows(std::unique_ptr<comm::Channel> channel, std::int64_t rows, std::int64_t row_elements,
                     int rounds)
    : channel_(std::move(channel)),
      row_bytes_((rows + 7) / 8),
      mine_(static_cast<std::size_t>(rounds * row_bytes_)),
      everyones_(static_cast<std::size_t>(channel_->size()) * mine_.size()),
      by_round_(static_cast<std::size_t>(rounds), {rows, row_elements, {}}) {
  const std::uint8_t* bits = everyones_.data();
  for (int rank = 0; rank < channel_->size(); ++rank)
    for (comm::UsedRows& round : by_round_) {
      round.by_rank.push_back(bits);
      bits += row_bytes_;
    }
}

void TokenRows::add(int round, std::span<const std::int32_t> tokens) {
  std::uint8_t* const bits = mine_.data() + round * row_bytes_;
  for (const std::int32_t token : tokens) bits[token / 8] |= static_cast<std::uint8_t>(1U << (token % 8));
}

void TokenRows::exchange() {
  const auto bytes = static_cast<std::int64_t>(mine_.size());
  comm::sync(channel_->all_gather({}, mine_.data(), everyones_.data(), bytes, DType::u8));
  std::fill(mine_.begin(), mine_.end(), std::uint8_t{0});
}

}  // namespace weft::train
