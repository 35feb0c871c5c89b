#include "exec/storage.hpp"

#include <stdexcept>

namespace weft::exec {

void Memory::reserve(const plan::Plan& plan) {
  for (std::size_t i = 0; i < plan.graph.storages().size(); ++i) {
    const ir::Storage& s = plan.graph.storages()[i];
    const auto bytes = static_cast<std::size_t>(plan.graph.local_bytes(s));
    if (!plan.storage_used[i]) continue;
    if (const auto it = storages_.find(s.name); it != storages_.end()) {
      if (it->second.size() != bytes)
        throw std::logic_error("plans disagree on the size of storage " + s.name);
      continue;
    }
    storages_.emplace(s.name, kernels::Buffer(bytes, "weft::storage::" + s.name));
  }
  if (plan.arena_bytes > arena_bytes()) {
    arena_ = kernels::Buffer();  // free the smaller one first
    arena_ = kernels::Buffer(static_cast<std::size_t>(plan.arena_bytes), "weft::arena");
  }
}

std::byte* Memory::storage(std::string_view name) const {
  const auto it = storages_.find(name);
  if (it == storages_.end()) throw std::logic_error("no plan has a storage " + std::string(name));
  return it->second.data();
}

std::int64_t Memory::storage_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, buffer] : storages_) bytes += static_cast<std::int64_t>(buffer.size());
  return bytes;
}

}  // namespace weft::exec
