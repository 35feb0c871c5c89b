// Device memory of a process: the persistent storages, shared by name between plans, and the one arena.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/memory.hpp"
#include "plan/plan.hpp"

namespace weft::exec {

class Memory {
 public:
  /// Allocates the plan's storages that do not exist yet, zeroed, and grows the arena to the largest plan's.
  /// All of it is touched here: on the host a run takes its memory before its first step, or not at all. Call
  /// it for every plan before the first Executor is made: executors keep addresses. Throws std::logic_error
  /// when two plans disagree on a storage's size.
  void reserve(const plan::Plan& plan);

  bool has(std::string_view storage) const { return storages_.find(storage) != storages_.end(); }
  std::byte* storage(std::string_view name) const;
  std::byte* arena() const { return arena_.data(); }
  std::int64_t arena_bytes() const { return static_cast<std::int64_t>(arena_.size()); }
  std::int64_t storage_bytes() const;

 private:
  static constexpr std::size_t alignment = 256;
  struct Stretch {
    std::byte* data;
    std::size_t bytes;
  };

  std::vector<kernels::Buffer> blocks_;  ///< one a call of reserve
  std::map<std::string, Stretch, std::less<>> storages_;
  kernels::Buffer arena_;
};

}  // namespace weft::exec
