#include "exec/storage.hpp"

#include <stdexcept>
#include <vector>

namespace weft::exec {

void Memory::reserve(const plan::Plan& plan) {
  struct Missing {
    const std::string* name;
    std::size_t bytes, offset;
  };
  std::vector<Missing> missing;
  std::size_t all = 0;
  for (std::size_t i = 0; i < plan.graph.storages().size(); ++i) {
    const ir::Storage& s = plan.graph.storages()[i];
    const auto bytes = static_cast<std::size_t>(plan.graph.local_bytes(s));
    if (!plan.storage_used[i]) continue;
    if (const auto it = storages_.find(s.name); it != storages_.end()) {
      if (it->second.bytes != bytes)
        throw std::logic_error("plans disagree on the size of storage " + s.name);
      continue;
    }
    missing.push_back({&s.name, bytes, all});
    all += (bytes + alignment - 1) / alignment * alignment;
  }
  // One allocation: a hundred of some megabytes would each round up to huge pages.
  const kernels::Buffer& block = blocks_.emplace_back(all, "weft::storages");
  for (const Missing& m : missing) storages_.emplace(*m.name, Stretch{block.data() + m.offset, m.bytes});
  if (plan.arena_bytes > arena_bytes()) {
    arena_ = kernels::Buffer();  // free the smaller one first
    arena_ = kernels::Buffer(static_cast<std::size_t>(plan.arena_bytes), "weft::arena");
  }
}

std::byte* Memory::storage(std::string_view name) const {
  const auto it = storages_.find(name);
  if (it == storages_.end()) throw std::logic_error("no plan has a storage " + std::string(name));
  return it->second.data;
}

std::int64_t Memory::storage_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, stretch] : storages_) bytes += static_cast<std::int64_t>(stretch.bytes);
  return bytes;
}

}  // namespace weft::exec
