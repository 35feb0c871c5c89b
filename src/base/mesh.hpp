// The device mesh: ranks arranged over named axes, as [parallel] in the deck says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// The axis that batches are cut over and, in the sharded modes, state as well.
inline constexpr std::string_view data_axis = "data";
/// The axis over which batches are cut, but state is repeated: every place on it holds the same state.
inline constexpr std::string_view replica_axis = "replica";
/// The axis over which the layers are cut into stages: every place on it has other layers.
inline constexpr std::string_view pipe_axis = "pipe";
/// The axis over which the matrices of each layer, the vocabulary and, between the products, the rows of
/// activations are cut: every place on it computes another part of the same layers from the same batch.
inline constexpr std::string_view tensor_axis = "tensor";

struct MeshAxis {
  std::string name;  ///< data_axis, replica_axis, pipe_axis or tensor_axis
  int size = 1;
  bool operator==(const MeshAxis&) const = default;
};

/// How many ranks of a group of an axis sit on one host and share its memory; every host has as many. 1: none
/// is shared.
struct Teams {
  int data = 1;
  int tensor = 1;
  bool any() const { return data > 1 || tensor > 1; }
  bool operator==(const Teams&) const = default;
};

/// Axes are ordered outermost first. The last axis varies fastest with the rank, so that its groups sit on
/// one host.
class Mesh {
 public:
  Mesh() = default;
  /// Throws Error(bad_input) on a size below one or a repeated name.
  explicit Mesh(std::vector<MeshAxis> axes);

  int world() const { return world_; }
  const std::vector<MeshAxis>& axes() const { return axes_; }
  int axis(std::string_view name) const;  ///< index of an axis; throws Error(bad_input) when there is none
  int size(int axis) const { return axes_[static_cast<std::size_t>(axis)].size; }
  int size(std::string_view name) const;     ///< 1 when there is no such axis
  int coordinate(int rank, int axis) const;  ///< the rank's place on that axis
  /// World ranks that share all of this rank's other coordinates, in the order of the axis.
  std::vector<int> group(int rank, int axis) const;
  /// The ranks that share a batch are those of the axes data and replica: how many there are, and a rank's
  /// place among them. The places of a replica lie side by side, whichever axis the deck names first: the
  /// bits of a step depend on no order of axes.
  int batch_ranks() const { return size(data_axis) * size(replica_axis); }
  int batch_rank(int rank) const;
  /// How many ranks have the same unit between them, and so save a part of it each: those that share a batch,
  /// and their neighbours on the tensor axis that have copies (Unit::copies). Units are padded so that they
  /// can be cut over all of them.
  int unit_ranks(int copies) const { return batch_ranks() * copies; }
  /// The rank's place on the pipe; 0 when there is none.
  int pipe_rank(int rank) const;
  /// The rank's place on the tensor axis; 0 when there is none.
  int tensor_rank(int rank) const;
  /// The first rank of each place on the pipe; rank 0 when there is none.
  std::vector<int> pipe_firsts() const;
  int stride(int axis) const;  ///< distance between neighbours of a group, in world ranks

  const Teams& teams() const { return teams_; }
  void set_teams(const Teams& teams) { teams_ = teams; }

 private:
  /// The rank's place on an axis; 0 when there is none.
  int place(int rank, std::string_view name) const;

  std::vector<MeshAxis> axes_;
  int world_ = 1;
  Teams teams_;
};

}  // namespace weft
