// The pipes that a test of several ranks can have.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/mpi_environment.hpp"

namespace weft::test {

/// The meshes of pipe and data over the ranks of this program, either axis outermost. One rank has none.
inline std::vector<std::string> pipe_meshes() {
  std::vector<std::string> list;
  for (int pipe = 2; pipe <= world().size(); ++pipe) {
    if (world().size() % pipe != 0) continue;
    const int data = world().size() / pipe;
    list.push_back(fmt::format("parallel.mesh={{ data = {}, pipe = {} }}", data, pipe));
    if (data > 1) list.push_back(fmt::format("parallel.mesh={{ pipe = {}, data = {} }}", pipe, data));
  }
  return list;
}

/// One of them for what does not depend on the mesh's shape: on few ranks all, on four the one with two axes.
/// A step takes twice as long there, because two cores have four ranks.
inline std::vector<std::string> some_pipe_meshes() {
  std::vector<std::string> list = pipe_meshes();
  return list.size() > 1 ? std::vector{list[1]} : list;
}

/// The number of layers of a model that fills two chunks of each rank, with the embedding and the head. On
/// four ranks its stages are uneven.
inline int layers_of_pipe() {
  return std::max(7, 2 * world().size() - 2);
}

}  // namespace weft::test
