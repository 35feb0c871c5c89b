// A window: memory that ranks of one host see. Each of them has a part, whose beginning the others may read,
// and all have one stretch in common. A team is those of them that are in one channel.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/lane.hpp"

namespace weft::comm {

struct WindowSizes {
  std::int64_t part = 0;    ///< bytes of each rank's part
  std::int64_t shown = 0;   ///< the first of these, which the others may read; the rest may be private memory
  std::int64_t common = 0;  ///< bytes that exist once
};

namespace detail {

/// How far each rank of a window is in the collectives of each lane. One rank writes a word and the others
/// read it, so that a barrier costs no message.
class Signals {
 public:
  /// How many calls of a channel may be under way at a time, on one rank or another.
  static constexpr std::size_t slots = 16;
  using Word = std::atomic<std::uint64_t>;
  static_assert(Word::is_always_lock_free, "words are shared between processes");

  static std::size_t bytes(int members) {
    return lane_count * static_cast<std::size_t>(members) * slots * sizeof(Word);
  }
  /// Uses `memory`: bytes(members), zeroed, the same for all ranks of the window.
  Signals(std::byte* memory, int members, int me)
      : words_(reinterpret_cast<Word*>(memory)), members_(members), me_(me) {}

  /// Says that call `serial` (from one) of a lane is past its first or second meeting on this rank.
  void arrive(Lane lane, std::uint64_t serial, int meeting) {
    word(lane, me_, serial).store(value(serial, meeting), std::memory_order_release);
  }
  /// Whether the call is past that meeting on all these members.
  bool all_arrived(std::span<const int> team, Lane lane, std::uint64_t serial, int meeting) const {
    return std::all_of(team.begin(), team.end(), [&](int m) {
      return word(lane, m, serial).load(std::memory_order_acquire) >= value(serial, meeting);
    });
  }

 private:
  static std::uint64_t value(std::uint64_t serial, int meeting) {
    return 2 * serial + static_cast<std::uint64_t>(meeting);
  }
  Word& word(Lane lane, int member, std::uint64_t serial) const {
    const auto row = static_cast<std::size_t>(lane) * static_cast<std::size_t>(members_) +
                     static_cast<std::size_t>(member);
    return words_[row * slots + serial % slots];
  }

  Word* words_;
  int members_;
  int me_;
};

}  // namespace detail

/// The window. World::share makes it. Its memory is zeroed, and touched by nobody yet; parts and the common
/// stretch begin at multiples of 256 bytes, as a Buffer does.
class Window {
 public:
  /// `ranks` are the world ranks that have it, ascending, and `member` is this rank's place among them.
  /// `parts` is the memory of each rank's part; `release` gives all of it back.
  Window(std::vector<int> ranks, int member, const WindowSizes& sizes, std::vector<std::byte*> parts,
         std::byte* common, std::byte* signals, std::function<void()> release)
      : ranks_(std::move(ranks)),
        member_(member),
        sizes_(sizes),
        parts_(std::move(parts)),
        common_(common),
        signals_(signals, size(), member),
        release_(std::move(release)) {}
  /// The channels that use it must be gone before.
  ~Window() { release_(); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// The place of a world rank in the window; -1 when it does not have it.
  int member_of(int rank) const {
    const auto place = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
    return place != ranks_.end() && *place == rank ? static_cast<int>(place - ranks_.begin()) : -1;
  }
  /// The number of its ranks.
  int size() const { return static_cast<int>(parts_.size()); }
  const WindowSizes& sizes() const { return sizes_; }
  std::byte* part(int member) const { return parts_[static_cast<std::size_t>(member)]; }
  std::byte* own() const { return part(member_); }
  std::byte* common() const { return common_; }

  bool in_shown(const void* p) const { return in(p, own(), sizes_.shown); }
  bool in_common(const void* p) const { return in(p, common_, sizes_.common); }
  detail::Signals& signals() { return signals_; }

 private:
  static bool in(const void* p, const std::byte* begin, std::int64_t bytes) {
    const auto* at = static_cast<const std::byte*>(p);
    return !std::less<>()(at, begin) && std::less<>()(at, begin + bytes);
  }

  std::vector<int> ranks_;
  int member_;
  WindowSizes sizes_;
  std::vector<std::byte*> parts_;
  std::byte* common_;
  detail::Signals signals_;
  std::function<void()> release_;
};

}  // namespace weft::comm
