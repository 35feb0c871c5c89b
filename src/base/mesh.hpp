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
/// The axis over which each sequence is cut: every place on it has other tokens of the same sequences. State
/// is cut over it together with the data axis.
inline constexpr std::string_view context_axis = "context";

struct MeshAxis {
  std::string name;  ///< one of the names above
  int size = 1;
  bool operator==(const MeshAxis&) const = default;
};

/// How many ranks of a group of an axis sit on one host and share its memory; every host has as many. 1: none
/// is shared.
struct Teams {
  int data = 1;
  int context = 1;
  int tensor = 1;
  /// Whether the GPUs of a group of the axis data read each other's gradients where they stand.
  bool peer_reads = false;
  /// Whether ranks of a host share memory.
  bool any() const { return data > 1 || context > 1 || tensor > 1; }
  bool operator==(const Teams&) const = default;
};

/// Axes are ordered outermost first. The last axis varies fastest with the rank, so that its groups sit on
/// one host.
///
/// Ranks that differ only in their place on an axis are a group of it. The groups of the axis data are larger
/// where there is an axis context: state is cut over both, so they have the ranks that differ on either,
/// those with one place on data side by side.
class Mesh {
 public:
  Mesh() = default;
  /// Throws Error(bad_input) on a size below one or a repeated name.
  explicit Mesh(std::vector<MeshAxis> axes);

  int world() const { return world_; }
  const std::vector<MeshAxis>& axes() const { return axes_; }  ///< as the deck has them
  int axis(std::string_view name) const;     ///< index of an axis; throws Error(bad_input) when there is none
  int size(int axis) const;                  ///< how many ranks a group of the axis has
  int size(std::string_view name) const;     ///< 1 when there is no such axis
  int coordinate(int rank, int axis) const;  ///< the rank's place in its group of the axis
  /// The world ranks of this rank's group of the axis, in its order.
  std::vector<int> group(int rank, int axis) const;
  int group_first(int rank, int axis) const;  ///< the first of group()
  int span(int axis) const;                   ///< how many world ranks lie from a group's first to its last
  /// The ranks that share a batch are those of the axes data and replica: how many there are, and a rank's
  /// place among them. The places of a replica lie side by side, whichever axis the deck names first: the
  /// bits of a step depend on no order of axes.
  int batch_ranks() const { return size(data_axis) * size(replica_axis) / size(context_axis); }
  int batch_rank(int rank) const;
  /// How many ranks have the same unit between them, and so save a part of it each: those that share a batch,
  /// those that share its sequences, and their neighbours on the tensor axis that have copies (Unit::copies).
  /// Units are padded so that they can be cut over all of them.
  int unit_ranks(int copies) const { return size(data_axis) * size(replica_axis) * copies; }
  /// The rank's place on the pipe; 0 when there is none.
  int pipe_rank(int rank) const;
  /// The rank's place on the tensor axis; 0 when there is none.
  int tensor_rank(int rank) const;
  /// The rank's place on the context axis; 0 when there is none.
  int context_rank(int rank) const;
  /// The rank's places on the axes that have several: "pipe 1, tensor 0"; empty when only data and replica
  /// do.
  std::string place_text(int rank) const;
  /// The first rank of each place on the pipe; rank 0 when there is none.
  std::vector<int> pipe_firsts() const;
  int stride(int axis) const;  ///< distance in world ranks between two places on the axis

  const Teams& teams() const { return teams_; }
  void set_teams(const Teams& teams) { teams_ = teams; }

 private:
  /// The rank's place on an axis; 0 when there is none.
  int place(int rank, std::string_view name) const;
  int place(int rank, int axis) const {
    return rank / stride(axis) % axes_[static_cast<std::size_t>(axis)].size;
  }
  /// The axis whose ranks are in the groups of `axis`, too; -1: none.
  int inner(int axis) const;

  std::vector<MeshAxis> axes_;
  int world_ = 1;
  Teams teams_;
};

}  // namespace weft
