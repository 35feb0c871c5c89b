#include "comm/world.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "base/check.hpp"

namespace weft::comm {
namespace {

template <class T>
void all_reduce(Channel& channel, std::span<T> values, DType dtype, ReduceOp op) {
  sync(channel.all_reduce({}, values.data(), static_cast<std::int64_t>(values.size()), dtype, op));
}

}  // namespace

std::unique_ptr<Channel> World::open(std::vector<int> ranks, Lane lane, std::string name,
                                     ChannelOptions options) {
  const std::set<int> distinct(ranks.begin(), ranks.end());
  const bool valid = distinct.size() == ranks.size() && distinct.contains(rank());
  WEFT_REQUIRE(
      valid && *distinct.begin() >= 0 && *distinct.rbegin() < size(),
      "rank {} cannot open channel {} (its ranks must be within 0..{}, each once, and include this one)",
      rank(), name, size() - 1);
  WEFT_REQUIRE(options.chunk_bytes > 0 && options.chunk_bytes <= (1 << 30),
               "channel {} with chunks of {} bytes", name, options.chunk_bytes);
  const RecordedBlock block(openings(ranks), {.kind = "open", .label = name});
  auto channel = open_channel(ranks, lane, std::move(name), options);
  channel->record_in(
      std::make_unique<ChannelRecord>(recorder_, channel->name(), std::move(ranks), channel->ends_seen()));
  return channel;
}

ChannelRecord* World::openings(const std::vector<int>& ranks) {
  if (openings_name_.empty()) return nullptr;
  std::unique_ptr<ChannelRecord>& record = openings_[ranks];
  if (!record) record = std::make_unique<ChannelRecord>(recorder_, openings_name_, ranks, /*ends_seen=*/true);
  return record.get();
}

std::unique_ptr<ChannelRecord> World::open_record(std::string name) const {
  return std::make_unique<ChannelRecord>(recorder_, std::move(name), everybody(), /*ends_seen=*/true);
}

std::vector<int> World::everybody() const {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string World::host_name() const {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::vector<int> World::host_numbers(const std::vector<int>& ranks) const {
  std::vector<int> numbers;
  if (hosts_.empty()) return numbers;
  for (const int rank : ranks) {
    const auto first = std::find(hosts_.begin(), hosts_.end(), hosts_[static_cast<std::size_t>(rank)]);
    numbers.push_back(static_cast<int>(first - hosts_.begin()));
  }
  return numbers;
}

std::vector<int> World::team(const std::vector<int>& group) const {
  std::map<std::string_view, std::vector<int>> by_host;
  for (const int r : group) by_host[hosts_[static_cast<std::size_t>(r)]].push_back(r);
  const std::vector<int>& mine = by_host.at(host());
  const bool alike = std::all_of(by_host.begin(), by_host.end(),
                                 [&](const auto& team) { return team.second.size() == mine.size(); });
  return alike ? mine : std::vector<int>{rank()};
}

std::unique_ptr<Window> World::share(const std::vector<int>& /*ranks*/, const WindowSizes& /*sizes*/) {
  return nullptr;
}

void World::connect() {
  openings_name_ = "channels";
  control_ = open(everybody(), Lane::compute, "world");

  constexpr std::size_t width = 256;
  const std::string mine = host_name();
  std::vector<char> names(width * static_cast<std::size_t>(size()));
  mine.copy(names.data() + width * static_cast<std::size_t>(rank()), width - 1);
  sync(control_->all_gather({}, names.data() + width * static_cast<std::size_t>(rank()), names.data(), width,
                            DType::u8));
  for (std::size_t r = 0; r < names.size() / width; ++r) hosts_.emplace_back(names.data() + width * r);
  node_size_ = static_cast<int>(std::count(hosts_.begin(), hosts_.end(), mine));
  node_rank_ = static_cast<int>(std::count(hosts_.begin(), hosts_.begin() + rank(), mine));
}

void World::connect_through(const World& other) {
  recorder_ = other.recorder_;
  openings_name_ = "device channels";
  control_ = other.control_;
  hosts_ = other.hosts_;
  node_rank_ = other.node_rank_;
  node_size_ = other.node_size_;
}

void World::barrier() {
  sync(control_->barrier({}));
}

void World::all_reduce_max(std::span<double> values) {
  all_reduce(*control_, values, DType::f64, ReduceOp::max);
}
void World::all_reduce_sum(std::span<double> values) {
  all_reduce(*control_, values, DType::f64, ReduceOp::sum);
}
void World::all_reduce_sum(std::span<std::int64_t> values) {
  all_reduce(*control_, values, DType::i64, ReduceOp::sum);
}
void World::all_reduce_sum(std::span<std::uint64_t> values) {
  all_reduce(*control_, values, DType::u64, ReduceOp::sum);
}

std::string World::broadcast(std::string text, int root) {
  auto bytes = static_cast<std::int64_t>(text.size());
  sync(control_->broadcast({}, &bytes, sizeof bytes, root));
  text.resize(static_cast<std::size_t>(bytes));
  sync(control_->broadcast({}, text.data(), bytes, root));
  return text;
}

std::vector<std::string> World::gather_strings(const std::string& text) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(size()));
  bytes[static_cast<std::size_t>(rank())] = static_cast<std::int64_t>(text.size());
  sync(control_->all_gather({}, &bytes[static_cast<std::size_t>(rank())], bytes.data(), 1, DType::i64));
  if (rank() != 0) {
    sync(control_->send({}, text.data(), bytes[static_cast<std::size_t>(rank())], 0));
    return {};
  }
  std::vector<std::string> texts{text};
  for (int r = 1; r < size(); ++r) {
    std::string& other =
        texts.emplace_back(static_cast<std::size_t>(bytes[static_cast<std::size_t>(r)]), '\0');
    sync(control_->recv({}, other.data(), bytes[static_cast<std::size_t>(r)], r));
  }
  return texts;
}

}  // namespace weft::comm
