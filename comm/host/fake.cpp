#include "comm/host/fake.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <tuple>

#include "base/align.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "comm/host/host_channel.hpp"

namespace weft::comm {
namespace detail {

/// The mailboxes of all channels. A send leaves a pointer; the receive that matches it copies, and completes
/// both.
class FakeFabric {
 public:
  /// A mailbox's key: (channel, sender, receiver, tag), with ranks within the channel.
  using Box = std::tuple<int, int, int, int>;

  int channel_id(const std::string& key) {
    std::lock_guard lock(mutex_);
    return ids_.try_emplace(key, static_cast<int>(ids_.size())).first->second;
  }

  /// Gives the same zeroed bytes to all that name the same key, as long as one of them holds them.
  std::shared_ptr<std::vector<std::byte>> memory(const std::string& key, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    auto memory = memory_[key].lock();
    if (!memory) memory_[key] = memory = std::make_shared<std::vector<std::byte>>(bytes);
    return memory;
  }

  Request post(const Box& box, void* data, std::size_t bytes, bool send) {
    std::lock_guard lock(mutex_);
    const std::uint64_t id = ++last_;
    Mailbox& mailbox = boxes_[box];
    (send ? mailbox.sends : mailbox.receives).push_back({id, data, bytes});
    open_[id] = false;
    deliver(mailbox);
    if (mailbox.sends.empty() && mailbox.receives.empty()) boxes_.erase(box);
    return {id, true};
  }

  bool test(Request& request) {
    if (!request.active) return true;
    std::lock_guard lock(mutex_);
    const auto it = open_.find(request.handle);
    if (!it->second) return false;
    open_.erase(it);
    request.active = false;
    return true;
  }

 private:
  struct Message {
    std::uint64_t id;
    void* data;
    std::size_t bytes;
  };
  struct Mailbox {
    std::deque<Message> sends, receives;
  };

  void deliver(Mailbox& mailbox) {
    while (!mailbox.sends.empty() && !mailbox.receives.empty()) {
      const Message from = mailbox.sends.front();
      const Message to = mailbox.receives.front();
      WEFT_REQUIRE(from.bytes == to.bytes,
                   "{} bytes were sent and {} are expected (the ranks call different operations)", from.bytes,
                   to.bytes);
      std::memcpy(to.data, from.data, to.bytes);
      open_[from.id] = open_[to.id] = true;
      mailbox.sends.pop_front();
      mailbox.receives.pop_front();
    }
  }

  std::mutex mutex_;
  std::map<std::string, int> ids_;
  std::map<std::string, std::weak_ptr<std::vector<std::byte>>> memory_;
  std::map<Box, Mailbox> boxes_;
  std::map<std::uint64_t, bool> open_;  // by message: whether it was delivered
  std::uint64_t last_ = 0;
};

namespace {

class FakeTransport final : public Transport {
 public:
  FakeTransport(std::shared_ptr<FakeFabric> fabric, int channel, int rank)
      : fabric_(std::move(fabric)), channel_(channel), rank_(rank) {}
  Request send(int peer, int tag, const void* data, std::size_t bytes) override {
    return fabric_->post({channel_, rank_, peer, tag}, const_cast<void*>(data), bytes, /*send=*/true);
  }
  Request recv(int peer, int tag, void* data, std::size_t bytes) override {
    return fabric_->post({channel_, peer, rank_, tag}, data, bytes, /*send=*/false);
  }
  bool test(Request& request) override { return fabric_->test(request); }

 private:
  std::shared_ptr<FakeFabric> fabric_;
  int channel_;
  int rank_;
};

}  // namespace
}  // namespace detail

FakeWorld::FakeWorld(const FakeOptions& options, int rank, std::shared_ptr<detail::FakeFabric> fabric)
    : options_(options), rank_(rank), fabric_(std::move(fabric)) {
  const auto failed = [](const std::string& line, ExitCode code) {
    log::write_error(line);
    end_all_ranks(static_cast<int>(code));
  };
  engine_ = std::make_unique<detail::Engine>(
      detail::Engine::Options{detail::Engine::Drive::thread, nullptr, failed});
}

FakeWorld::FakeWorld(const FakeOptions& options)
    : FakeWorld(options, 0, std::make_shared<detail::FakeFabric>()) {
  WEFT_REQUIRE(options.size == 1,
               "a FakeWorld of {} ranks (one constructor makes one rank); use make_fake_worlds",
               options.size);
  connect();
}

FakeWorld::~FakeWorld() {
  disconnect();
}

void FakeWorld::abort(int code) {
  end_all_ranks(code);
}

std::string FakeWorld::host_name() const {
  return fmt::format("host{}", options_.ranks_per_host == 0 ? 0 : rank_ / options_.ranks_per_host);
}

std::unique_ptr<Window> FakeWorld::share(const std::vector<int>& ranks, const WindowSizes& sizes) {
  const auto members = static_cast<int>(ranks.size());
  const auto place = std::lower_bound(ranks.begin(), ranks.end(), rank_) - ranks.begin();
  const auto signals = aligned(detail::Signals::bytes(members)),
             part = aligned(static_cast<std::size_t>(sizes.part)),
             common = aligned(static_cast<std::size_t>(sizes.common));
  // The window begins at an aligned address, so up to one alignment of bytes is skipped before it.
  const std::size_t bytes = signals + common + part * ranks.size() + aligned(1);
  auto memory = fabric_->memory(fmt::format("{} #{}", fmt::join(ranks, " "), windows_++), bytes);
  std::byte* const first = aligned(memory->data());
  std::vector<std::byte*> parts;
  for (std::size_t m = 0; m < ranks.size(); ++m) parts.push_back(first + signals + common + m * part);
  return std::make_unique<Window>(ranks, static_cast<int>(place), sizes, std::move(parts), first + signals,
                                  first, [memory] {});
}

std::vector<FinishedCall> FakeWorld::records() const {
  std::lock_guard lock(records_mutex_);
  return records_;
}

std::unique_ptr<Channel> FakeWorld::open_channel(const std::vector<int>& ranks, Lane lane, std::string name,
                                                 const ChannelOptions& options) {
  std::string key = name;  // without the lane: a link between stages has another one at each end
  for (int r : ranks) key += fmt::format(" {}", r);
  key += fmt::format(" #{}", opened_[key]++);
  detail::HostChannel::Setup setup;
  // World::connect's channel, the first one.
  const bool control = opened_.size() == 1 && lane == Lane::compute;
  setup.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
  setup.size = static_cast<int>(ranks.size());
  setup.lane = lane;
  setup.name = std::move(name);
  setup.chunk_bytes = options.chunk_bytes;
  setup.ranks = ranks;
  setup.host_of = host_numbers(ranks);
  setup.transport = std::make_unique<detail::FakeTransport>(fabric_, fabric_->channel_id(key), setup.rank);
  if (options_.max_delay.count() > 0 && !control) {
    const std::uint64_t seed =
        options_.seed * 1000003 + static_cast<std::uint64_t>(rank_) * 1009 + opened_.size();
    const std::int64_t longest = std::chrono::nanoseconds(options_.max_delay).count();
    setup.delay_ns = [random = std::mt19937_64(seed), longest]() mutable {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(longest));
    };
  }
  auto channel = std::make_unique<detail::HostChannel>(*engine_, std::move(setup));
  if (!control) {
    channel->set_observer([this](const FinishedCall& record) {
      std::lock_guard lock(records_mutex_);
      records_.push_back(record);
    });
  }
  return channel;
}

std::vector<std::unique_ptr<FakeWorld>> make_fake_worlds(const FakeOptions& options) {
  auto fabric = std::make_shared<detail::FakeFabric>();
  std::vector<std::unique_ptr<FakeWorld>> worlds;
  for (int r = 0; r < options.size; ++r) {
    worlds.push_back(std::unique_ptr<FakeWorld>(new FakeWorld(options, r, fabric)));
  }
  // The worlds are made on threads, because learning the hosts is collective.
  std::vector<std::thread> threads;
  for (auto& world : worlds) threads.emplace_back([&world] { world->connect(); });
  for (auto& thread : threads) thread.join();
  return worlds;
}

}  // namespace weft::comm
