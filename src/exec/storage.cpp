#include "exec/storage.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "base/align.hpp"

namespace weft::exec {

namespace {

kernels::Buffer buffer_of(std::size_t bytes, const std::string& label, const Memory::Allocate& allocate) {
  if (auto memory = allocate(bytes)) return {std::move(memory), bytes};
  return {bytes, label};
}

struct SizeOfStorage {
  std::int64_t bytes;  ///< bytes on one rank
  int team;            ///< how many ranks' slices stand side by side
};

/// The storages that the plans use, by name.
std::map<std::string, SizeOfStorage> storages_of(Memory::Plans plans) {
  std::map<std::string, SizeOfStorage> sizes;
  for (const plan::Plan* plan : plans)
    for (std::size_t i = 0; i < plan->graph.storages().size(); ++i) {
      if (!plan->storage_used[i]) continue;
      const ir::Storage& s = plan->graph.storages()[i];
      const std::int64_t bytes = plan->graph.local_bytes(s);
      SizeOfStorage& size = sizes.try_emplace(s.name, SizeOfStorage{bytes, 1}).first->second;
      if (size.bytes != bytes) throw std::logic_error("plans disagree on the size of storage " + s.name);
      if (plan->storage_common[i]) size.team = plan->team;
    }
  return sizes;
}

/// Bytes of the copies that a team has in common, for the plan that needs most.
std::int64_t copies_bytes(Memory::Plans plans) {
  std::int64_t bytes = 0;
  for (const plan::Plan* plan : plans) bytes = std::max(bytes, plan->common_bytes);
  return bytes;
}

}  // namespace

comm::WindowSizes Memory::window_sizes(Plans plans, int teams) {
  comm::WindowSizes sizes;
  for (const plan::Plan* plan : plans) {
    sizes.part = std::max(sizes.part, plan->arena_bytes);
    sizes.shown = std::max(sizes.shown, plan->shown_bytes);
  }
  sizes.common = copies_bytes(plans);
  for (const auto& [name, s] : storages_of(plans))
    if (s.team > 1) sizes.common += aligned(s.team * s.bytes);
  sizes.common *= teams;
  return sizes;
}

void Memory::reserve(Plans plans, SharedMemory shared, const Allocate& allocate) {
  shared_ = std::move(shared);
  if (window() != nullptr) {
    touch_window(copies_bytes(plans));
  } else {
    arena_ = buffer_of(static_cast<std::size_t>(window_sizes(plans, 1).part), "weft::arena", allocate);
  }
  reserve_storages(plans, allocate);
}

bool Memory::register_with(comm::Channel& channel) const {
  bool all = true;
  for (const kernels::Buffer* buffer : {&arena_, &block_})
    all = channel.register_memory(buffer->data(), buffer->size()) && all;
  return all;
}

std::string Memory::show_to(comm::Channel& channel) const {
  const std::array<std::span<std::byte>, 2> memory{std::span(arena_.data(), arena_.size()),
                                                   std::span(block_.data(), block_.size())};
  return channel.show_memory(memory);
}

void Memory::touch_window(std::int64_t copies) {
  kernels::Space space;
  kernels::fill_zero(space, window()->own(), static_cast<std::size_t>(window()->sizes().part));
  // Each rank of the team touches a part of the copies, so that they lie in the memory of all its sockets.
  const std::int64_t part = aligned(plan::share_of(copies, shared_.members));
  const std::int64_t begin = std::min(part * shared_.member, copies);
  kernels::fill_zero(space, common() + begin, static_cast<std::size_t>(std::min(part, copies - begin)));
}

void Memory::reserve_storages(Plans plans, const Allocate& allocate) {
  const std::map<std::string, SizeOfStorage> sizes = storages_of(plans);
  std::int64_t all = 0;
  for (const auto& [name, s] : sizes)
    if (s.team == 1) all += aligned(s.bytes);
  // All storages are one allocation: a hundred allocations of some megabytes would each be rounded up to huge
  // pages.
  block_ = buffer_of(static_cast<std::size_t>(all), "weft::storages", allocate);
  std::byte* next = block_.data();
  std::byte* next_common = common() == nullptr ? nullptr : common() + copies_bytes(plans);
  kernels::Space space;
  for (const auto& [name, s] : sizes) {
    const auto bytes = static_cast<std::size_t>(s.bytes);
    if (s.team == 1) {
      storages_.emplace(name, Stretch{next, bytes});
      next += aligned(s.bytes);
    } else {
      std::byte* const mine = next_common + shared_.member * s.bytes;
      kernels::fill_zero(space, mine, bytes);  // the rank that touches it is the one whose slice it is
      storages_.emplace(name, Stretch{mine, bytes});
      next_common += aligned(s.team * s.bytes);
    }
  }
}

std::byte* Memory::storage(std::string_view name) const {
  const auto it = storages_.find(name);
  if (it == storages_.end()) throw std::logic_error("no plan has a storage " + std::string(name));
  return it->second.begin;
}

std::int64_t Memory::window_bytes() const {
  if (window() == nullptr) return 0;
  return window()->sizes().shown + plan::share_of(window()->sizes().common, window()->size());
}

std::int64_t Memory::storage_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, stretch] : storages_) bytes += static_cast<std::int64_t>(stretch.bytes);
  return bytes;
}

}  // namespace weft::exec
