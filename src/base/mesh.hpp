// The device mesh: ranks arranged over named axes, as [parallel] in the deck says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct MeshAxis {
  std::string name;  ///< "data": the axis that batches, and in the sharded modes parameters, are split over
  int size = 1;
  bool operator==(const MeshAxis&) const = default;
};

/// Axes are ordered outermost first; the last axis varies fastest with the rank, so that its groups sit in
/// one node.
class Mesh {
 public:
  Mesh() = default;
  /// Throws Error(bad_input) on a size below one or a repeated name.
  explicit Mesh(std::vector<MeshAxis> axes);

  int world() const { return world_; }
  const std::vector<MeshAxis>& axes() const { return axes_; }
  int axis(std::string_view name) const;  ///< index of an axis; throws Error(bad_input) when there is none
  int size(int axis) const { return axes_[static_cast<std::size_t>(axis)].size; }
  int coordinate(int rank, int axis) const;  ///< the rank's place on that axis
  std::vector<int> group(int rank,
                         int axis) const;  ///< world ranks that share all other coordinates, in order

 private:
  std::vector<MeshAxis> axes_;
  int world_ = 1;
};

}  // namespace weft
