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

/// As many layers as two chunks of each rank need, with the embedding and the head: uneven stages on four.
inline int layers_of_pipe() {
  return std::max(7, 2 * world().size() - 2);
}

}  // namespace weft::test
