// Finds one thing among thousands by its name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::ir {

/// A hash table of the places that named things have in a vector. It holds no names itself, because a pass
/// copies it together with the graph.
class NameIndex {
 public:
  template <class Named>
  std::optional<std::size_t> find(const std::vector<Named>& things, std::string_view name) const {
    if (slots_.empty()) return std::nullopt;
    const std::int32_t found = slots_[slot_of(things, name, hash_of(name))].index;
    if (found == none) return std::nullopt;
    return static_cast<std::size_t>(found);
  }

  /// Adds the last of `things`, whose name must not be taken yet.
  template <class Named>
  void add_last(const std::vector<Named>& things) {
    const bool full = 2 * things.size() > slots_.size();
    if (full) slots_.assign(4 * things.size(), {});
    for (std::size_t i = full ? 0 : things.size() - 1; i < things.size(); ++i) {
      const std::uint32_t hash = hash_of(things[i].name);
      slots_[slot_of(things, things[i].name, hash)] = {hash, static_cast<std::int32_t>(i)};
    }
  }

 private:
  static constexpr std::int32_t none = -1;

  struct Slot {
    std::uint32_t hash = 0;  ///< of the name, so that few other names are looked at
    std::int32_t index = none;
  };

  static std::uint32_t hash_of(std::string_view name) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>{}(name));
  }
  /// The slot that has the name, or a free one for it.
  template <class Named>
  std::size_t slot_of(const std::vector<Named>& things, std::string_view name, std::uint32_t hash) const {
    std::size_t slot = hash % slots_.size();
    while (slots_[slot].index != none &&
           (slots_[slot].hash != hash || things[static_cast<std::size_t>(slots_[slot].index)].name != name))
      slot = slot + 1 == slots_.size() ? 0 : slot + 1;
    return slot;
  }

  std::vector<Slot> slots_;
};

}  // namespace weft::ir
