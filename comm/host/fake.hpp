// A world whose ranks are threads of one process, with real results. It records every call, delays
// starts and ends at random (seeded), and so reorders completions across channels. It is for tests of
// whatever stands on channels.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/world.hpp"

namespace weft::comm {

namespace detail {
class Engine;
class FakeFabric;
}  // namespace detail

struct FakeOptions {
  int size = 1;
  std::uint64_t seed = 0;
  /// How much later a call may start and complete than it could; 0: no delay.
  std::chrono::microseconds max_delay{0};
  /// Ranks r with the same r / ranks_per_host are on one host; 0: all ranks are.
  int ranks_per_host = 0;
};

class FakeWorld final : public World {
 public:
  /// A world of one rank.
  explicit FakeWorld(const FakeOptions& options = {});
  ~FakeWorld() override;

  int rank() const override { return rank_; }
  int size() const override { return options_.size; }
  /// Ends the process with this exit code.
  [[noreturn]] void abort(int code) override;
  std::unique_ptr<Window> share(const std::vector<int>& ranks, const WindowSizes& sizes) override;

  /// The calls that this rank has finished on the channels it opened, in the order in which they ended.
  std::vector<FinishedCall> records() const;

 protected:
  std::string host_name() const override;
  std::unique_ptr<Channel> open_channel(const std::vector<int>& ranks, Lane lane, std::string name,
                                        const ChannelOptions& options) override;

 private:
  friend std::vector<std::unique_ptr<FakeWorld>> make_fake_worlds(const FakeOptions& options);
  FakeWorld(const FakeOptions& options, int rank, std::shared_ptr<detail::FakeFabric> fabric);

  FakeOptions options_;
  int rank_;
  std::shared_ptr<detail::FakeFabric> fabric_;
  int windows_ = 0;
  std::map<std::string, int> opened_;  ///< how many channels there are of the same name and ranks
  mutable std::mutex records_mutex_;
  std::vector<FinishedCall> records_;
  std::unique_ptr<detail::Engine> engine_;
};

/// Makes the worlds of options.size ranks; give each to a thread of its own.
std::vector<std::unique_ptr<FakeWorld>> make_fake_worlds(const FakeOptions& options);

}  // namespace weft::comm
