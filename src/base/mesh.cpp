#include "base/mesh.hpp"

#include <limits>
#include <utility>

#include "base/check.hpp"

namespace weft {

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    WEFT_VALIDATE(axes_[i].size >= 1, "mesh axis '{}' has size {} (an axis holds at least one rank)",
                  axes_[i].name, axes_[i].size);
    for (std::size_t j = 0; j < i; ++j)
      WEFT_VALIDATE(axes_[i].name != axes_[j].name, "mesh axis '{}' appears twice", axes_[i].name);
    WEFT_VALIDATE(axes_[i].size <= std::numeric_limits<int>::max() / world_,
                  "mesh axis '{}' has size {} (more ranks than there can be)", axes_[i].name, axes_[i].size);
    world_ *= axes_[i].size;
  }
}

int Mesh::axis(std::string_view name) const {
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].name == name) return static_cast<int>(i);
  WEFT_VALIDATE(false, "the mesh has no axis '{}'", name);
  return -1;
}

int Mesh::size(std::string_view name) const {
  for (const MeshAxis& axis : axes_)
    if (axis.name == name) return axis.size;
  return 1;
}

int Mesh::stride(int axis) const {
  int stride = 1;
  for (int i = static_cast<int>(axes_.size()) - 1; i > axis; --i) stride *= size(i);
  return stride;
}

int Mesh::coordinate(int rank, int axis) const {
  return rank / stride(axis) % size(axis);
}

int Mesh::place(int rank, std::string_view name) const {
  return size(name) == 1 ? 0 : coordinate(rank, axis(name));
}

int Mesh::batch_rank(int rank) const {
  return place(rank, replica_axis) * size(data_axis) + place(rank, data_axis);
}

int Mesh::pipe_rank(int rank) const {
  return place(rank, pipe_axis);
}

int Mesh::tensor_rank(int rank) const {
  return place(rank, tensor_axis);
}

std::vector<int> Mesh::pipe_firsts() const {
  return size(pipe_axis) == 1 ? std::vector{0} : group(0, axis(pipe_axis));
}

std::vector<int> Mesh::group(int rank, int axis) const {
  const int first = rank - coordinate(rank, axis) * stride(axis);
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(size(axis)));
  for (int i = 0; i < size(axis); ++i) ranks.push_back(first + i * stride(axis));
  return ranks;
}

}  // namespace weft
