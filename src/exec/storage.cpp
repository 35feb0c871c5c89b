#include "exec/storage.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/align.hpp"

namespace weft::exec {

namespace {

kernels::Buffer buffer_of(std::size_t bytes, const std::string& label, const Memory::Allocate& allocate) {
  if (auto memory = allocate(bytes)) return {std::move(memory), bytes};
  return {bytes, label};
}

}  // namespace

comm::WindowSizes Memory::window_sizes(Plans plans) {
  comm::WindowSizes sizes;
  for (const plan::Plan* plan : plans) {
    sizes.part = std::max(sizes.part, plan->arena_bytes);
    sizes.shown = std::max(sizes.shown, plan->shown_bytes);
    sizes.common = std::max(sizes.common, plan->common_bytes);
  }
  return sizes;
}

void Memory::reserve(Plans plans, std::unique_ptr<comm::Window> window, const Allocate& allocate) {
  window_ = std::move(window);
  if (window_) {
    touch_window();
  } else {
    arena_ = buffer_of(static_cast<std::size_t>(window_sizes(plans).part), "weft::arena", allocate);
  }
  reserve_storages(plans, allocate);
}

void Memory::register_with(comm::Channel& channel) const {
  for (const kernels::Buffer* buffer : {&arena_, &block_})
    channel.register_memory(buffer->data(), buffer->size());
}

void Memory::touch_window() {
  const std::int64_t common = window_->sizes().common;
  kernels::Space space;
  kernels::fill_zero(space, window_->own(), static_cast<std::size_t>(window_->sizes().part));
  // Each member touches a part of what is in common, so that it lies in the memory of all their sockets.
  const std::int64_t part = aligned(plan::share_of(common, window_->size()));
  const std::int64_t begin = std::min(part * window_->member(), common);
  kernels::fill_zero(space, window_->common() + begin,
                     static_cast<std::size_t>(std::min(part, common - begin)));
}

void Memory::reserve_storages(Plans plans, const Allocate& allocate) {
  std::size_t all = 0;
  for (const plan::Plan* plan : plans)
    for (std::size_t i = 0; i < plan->graph.storages().size(); ++i) {
      const ir::Storage& s = plan->graph.storages()[i];
      const auto bytes = static_cast<std::size_t>(plan->graph.local_bytes(s));
      if (!plan->storage_used[i]) continue;
      const auto [it, is_new] = storages_.try_emplace(s.name, Stretch{all, bytes});
      if (it->second.bytes != bytes)
        throw std::logic_error("plans disagree on the size of storage " + s.name);
      if (is_new) all += aligned(bytes);
    }
  // One allocation: a hundred of some megabytes would each round up to huge pages.
  block_ = buffer_of(all, "weft::storages", allocate);
}

std::byte* Memory::storage(std::string_view name) const {
  const auto it = storages_.find(name);
  if (it == storages_.end()) throw std::logic_error("no plan has a storage " + std::string(name));
  return block_.data() + it->second.offset;
}

std::int64_t Memory::window_bytes() const {
  if (!window_) return 0;
  return window_->sizes().shown + plan::share_of(window_->sizes().common, window_->size());
}

std::int64_t Memory::storage_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, stretch] : storages_) bytes += static_cast<std::int64_t>(stretch.bytes);
  return bytes;
}

}  // namespace weft::exec
