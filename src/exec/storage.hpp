// The device memory of a process: the persistent storages, which plans share by name, and the one arena.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/channel.hpp"
#include "comm/window.hpp"
#include "kernels/memory.hpp"
#include "plan/plan.hpp"

namespace weft::exec {

/// Memory that the ranks of a host share: those of a group of the data axis, in a team for each of their
/// neighbours on the tensor axis. A team has one stretch in common.
struct SharedMemory {
  std::unique_ptr<comm::Window> window;  ///< null where nothing is shared
  int team = 0, teams = 1;               ///< this rank's team, and how many there are
  int member = 0, members = 1;           ///< this rank's place in its team, and how many ranks it has
};

class Memory {
 public:
  using Plans = std::span<const plan::Plan* const>;
  /// Allocates device memory, or returns null, like comm::World::allocate.
  using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t)>;

  /// The sizes of the window that the largest plan needs for so many teams. Common to a team are the copies
  /// of what it gathers, and behind them the storages that it sees.
  static comm::WindowSizes window_sizes(Plans plans, int teams);
  /// Allocates the plans' storages, zeroed, and an arena that is the largest plan's. These are a part of
  /// the shared window, whose sizes are those of window_sizes(), or memory of its own without a window. All
  /// of it is touched here: on the host a run takes its memory before its first step, or not at all. Where
  /// `allocate` returns null, ordinary device memory is taken. Call it once, before the first Executor is
  /// made. Throws std::logic_error when two plans disagree on a storage's size.
  void reserve(Plans plans, SharedMemory shared, const Allocate& allocate);
  /// Tells the channel which memory its operands lie in; returns whether it has registered all of it
  /// (comm::Channel::register_memory).
  bool register_with(comm::Channel& channel) const;
  /// Collective over the channel: shows it the same memory (comm::Channel::show_memory).
  std::string show_to(comm::Channel& channel) const;

  bool has(std::string_view storage) const { return storages_.find(storage) != storages_.end(); }
  /// This rank's part of a storage. The slices of the other ranks of the team lie before and behind it where
  /// plans say so (Plan::storage_common).
  std::byte* storage(std::string_view name) const;
  std::byte* arena() const { return window() != nullptr ? window()->own() : arena_.data(); }
  /// The memory that this rank's team has in common; null where nothing is shared.
  std::byte* common() const {
    if (window() == nullptr) return nullptr;
    return window()->common() + window()->sizes().common / shared_.teams * shared_.team;
  }
  comm::Window* window() const { return shared_.window.get(); }
  /// How much of the shared memory this rank answers for: what it shows, and its share of what is in common.
  /// 0 where nothing is shared.
  std::int64_t window_bytes() const;
  std::int64_t storage_bytes() const;

 private:
  struct Stretch {
    std::byte* begin;
    std::size_t bytes;
  };

  void touch_window(std::int64_t copies);
  void reserve_storages(Plans plans, const Allocate& allocate);

  kernels::Buffer block_;  ///< holds the storages that only this rank sees
  std::map<std::string, Stretch, std::less<>> storages_;
  kernels::Buffer arena_;
  SharedMemory shared_;  ///< holds the arena and what the team has in common
};

}  // namespace weft::exec
