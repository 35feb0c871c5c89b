// Strong index types: a ValueId cannot be used where a NodeId or an int is wanted.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft {

/// An index into one kind of table. Default-constructed ids are invalid.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::size_t i) : i_(static_cast<std::int32_t>(i)) {}
  constexpr std::size_t index() const { return static_cast<std::size_t>(i_); }
  constexpr bool valid() const { return i_ >= 0; }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  std::int32_t i_ = -1;
};

}  // namespace weft

template <class Tag>
struct std::hash<weft::Id<Tag>> {
  std::size_t operator()(weft::Id<Tag> id) const noexcept { return id.index(); }
};
