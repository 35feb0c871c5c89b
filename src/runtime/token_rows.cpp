#include "runtime/token_rows.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace weft::runtime {
namespace {

struct Table {
  comm::RowSlices slices;
  int rounds = 0;  ///< all of the plan's, also those that send no rows; 0: it sends whole units throughout
};

Table table_of(const plan::Plan& plan) {
  Table table;
  for (const ir::Node& node : plan.graph.nodes()) {
    if (!node.attributes.has(ir::Attr::used)) continue;
    table.rounds = plan.graph.rounds();
    const bool gathers = node.op == ir::Op::all_gather;
    const ir::ValueId whole = gathers ? node.outputs.front() : ir::member_input(node, 0);
    comm::RowSlices& s = table.slices;
    s.row_elements = node.attributes.integer(ir::Attr::row);
    s.rows = plan.graph.unit(plan.graph.value(node.outputs.front()).unit).elements / s.row_elements;
    s.ranks = plan.graph.mesh().size(data_axis);
    s.slice_elements = plan.graph.local_elements(whole) / s.ranks;
  }
  return table;
}

std::int64_t bits_told(const comm::RowSlices& slices, int rounds) {
  return slices.ranks * rounds * slices.slice_bytes();
}

}  // namespace

std::unique_ptr<TokenRows> TokenRows::make(
    const plan::Plan& plan, int tensor_rank,
    const std::function<std::unique_ptr<comm::Channel>()>& open_channel) {
  const Table table = table_of(plan);
  if (table.rounds == 0) return nullptr;
  return std::unique_ptr<TokenRows>(
      new TokenRows(open_channel(), table.slices, table.rounds, tensor_rank * table.slices.rows));
}

std::int64_t TokenRows::planned_bytes(const plan::Plan& plan) {
  const Table table = table_of(plan);
  if (table.rounds == 0) return 0;
  return table.rounds * (table.slices.table_bytes() + static_cast<std::int64_t>(sizeof(comm::UsedRows))) +
         2 * bits_told(table.slices, table.rounds);
}

TokenRows::TokenRows(std::unique_ptr<comm::Channel> channel, const comm::RowSlices& slices, int rounds,
                     std::int64_t first)
    : channel_(std::move(channel)),
      slices_(slices),
      first_(first),
      mine_(static_cast<std::size_t>(rounds * slices.table_bytes())),
      told_(static_cast<std::size_t>(bits_told(slices, rounds))),
      heard_(told_.size()),
      by_round_(static_cast<std::size_t>(rounds)) {
  for (int round = 0; round < rounds; ++round)
    by_round_[static_cast<std::size_t>(round)] = {
        slices, channel_->rank(), mine_.data() + round * slices.table_bytes(),
        heard_.data() + round * slices.slice_bytes(), rounds * slices.slice_bytes()};
}

void TokenRows::add(int round, std::span<const std::int32_t> tokens) {
  WEFT_EXPECT(round >= 0 && static_cast<std::size_t>(round) < by_round_.size());
  if (exchanged_) std::fill(mine_.begin(), mine_.end(), std::uint8_t{0});
  exchanged_ = false;
  std::uint8_t* const bits = mine_.data() + round * slices_.table_bytes();
  for (const std::int32_t any : tokens) {
    const std::int64_t token = any - first_;
    if (token >= 0 && token < slices_.rows) bits[token / 8] |= static_cast<std::uint8_t>(1U << (token % 8));
  }
}

void TokenRows::exchange() {
  const std::int64_t slice = slices_.slice_bytes(), table = slices_.table_bytes();
  std::uint8_t* to = told_.data();
  for (int rank = 0; rank < slices_.ranks; ++rank)
    for (const comm::UsedRows& round : by_round_) {
      const std::int64_t first = slices_.first_row(rank) / 8;
      std::copy_n(round.own + first, std::min(slice, table - first), to);
      to += slice;
    }
  const auto count = static_cast<std::int64_t>(by_round_.size()) * slice;
  comm::sync(channel_->all_to_all({}, told_.data(), heard_.data(), count, DType::u8));
  exchanged_ = true;
}

std::int64_t TokenRows::bytes() const {
  return static_cast<std::int64_t>(mine_.capacity() + told_.capacity() + heard_.capacity() +
                                   by_round_.capacity() * sizeof(comm::UsedRows));
}

}  // namespace weft::runtime
