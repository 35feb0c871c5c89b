#include "base/mesh.hpp"

#include <fmt/core.h>

#include <limits>
#include <utility>

#include "base/check.hpp"

namespace weft {
namespace {

/// The index of an axis; -1 when there is none of this name.
int find(const std::vector<MeshAxis>& axes, std::string_view name) {
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace

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
  const int index = find(axes_, name);
  WEFT_VALIDATE(index >= 0, "the mesh has no axis '{}'", name);
  return index;
}

int Mesh::inner(int axis) const {
  return axes_[static_cast<std::size_t>(axis)].name == data_axis ? find(axes_, context_axis) : -1;
}

int Mesh::size(int axis) const {
  const int own = axes_[static_cast<std::size_t>(axis)].size, other = inner(axis);
  return other < 0 ? own : own * size(other);
}

int Mesh::size(std::string_view name) const {
  const int index = find(axes_, name);
  return index < 0 ? 1 : size(index);
}

int Mesh::stride(int axis) const {
  int stride = 1;
  for (std::size_t i = axes_.size() - 1; i > static_cast<std::size_t>(axis); --i) stride *= axes_[i].size;
  return stride;
}

int Mesh::coordinate(int rank, int axis) const {
  const int other = inner(axis);
  return other < 0 ? place(rank, axis) : place(rank, axis) * size(other) + place(rank, other);
}

int Mesh::place(int rank, std::string_view name) const {
  const int index = find(axes_, name);
  return index < 0 ? 0 : place(rank, index);
}

int Mesh::batch_rank(int rank) const {
  return place(rank, replica_axis) * (size(data_axis) / size(context_axis)) + place(rank, data_axis);
}

int Mesh::pipe_rank(int rank) const {
  return place(rank, pipe_axis);
}

int Mesh::tensor_rank(int rank) const {
  return place(rank, tensor_axis);
}

int Mesh::context_rank(int rank) const {
  return place(rank, context_axis);
}

std::string Mesh::place_text(int rank) const {
  std::string text;
  bool cuts_model = false;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const MeshAxis& axis = axes_[i];
    if (axis.size == 1) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis.name, place(rank, static_cast<int>(i)));
    cuts_model = cuts_model || (axis.name != data_axis && axis.name != replica_axis);
  }
  return cuts_model ? text : "";
}

std::vector<int> Mesh::pipe_firsts() const {
  return size(pipe_axis) == 1 ? std::vector{0} : group(0, axis(pipe_axis));
}

int Mesh::group_first(int rank, int axis) const {
  const int other = inner(axis), first = rank - place(rank, axis) * stride(axis);
  return other < 0 ? first : first - place(rank, other) * stride(other);
}

std::vector<int> Mesh::group(int rank, int axis) const {
  const int first = group_first(rank, axis), other = inner(axis);
  const int inner_size = other < 0 ? 1 : size(other), inner_stride = other < 0 ? 0 : stride(other);
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(size(axis)));
  for (int i = 0; i < size(axis); ++i)
    ranks.push_back(first + i / inner_size * stride(axis) + i % inner_size * inner_stride);
  return ranks;
}

int Mesh::span(int axis) const {
  const int other = inner(axis);
  int last = (axes_[static_cast<std::size_t>(axis)].size - 1) * stride(axis);
  if (other >= 0) last += (size(other) - 1) * stride(other);
  return last + 1;
}

}  // namespace weft
