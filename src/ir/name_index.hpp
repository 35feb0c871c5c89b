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
    const std::int32_t found = slots_[slot_of(things, name)];
    if (found == none) return std::nullopt;
    return static_cast<std::size_t>(found);
  }

  /// Adds the last of `things`, whose name must not be taken yet.
  template <class Named>
  void add_last(const std::vector<Named>& things) {
    const bool full = 2 * things.size() > slots_.size();
    if (full) slots_.assign(4 * things.size(), none);
    for (std::size_t i = full ? 0 : things.size() - 1; i < things.size(); ++i)
      slots_[slot_of(things, things[i].name)] = static_cast<std::int32_t>(i);
  }

 private:
  static constexpr std::int32_t none = -1;

  /// The slot that has the name, or a free one for it.
  template <class Named>
  std::size_t slot_of(const std::vector<Named>& things, std::string_view name) const {
    std::size_t slot = std::hash<std::string_view>{}(name) % slots_.size();
    while (slots_[slot] != none && things[static_cast<std::size_t>(slots_[slot])].name != name)
      slot = slot + 1 == slots_.size() ? 0 : slot + 1;
    return slot;
  }

  std::vector<std::int32_t> slots_;
};

}  // namespace weft::ir
