// Named regions for Kokkos Tools: a profiler attributes kernels to module paths.
#pragma once

namespace weft::kernels {

/// Whether a tool of Kokkos is loaded in this process. A tool is told of launches, so it sees nothing of a
/// CUDA graph's kernels.
bool tool_loaded();

/// Opens a region for its lifetime; one branch when no tool is loaded. `name` is not copied.
class Region {
 public:
  explicit Region(const char* name);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  bool open_;
};

}  // namespace weft::kernels
