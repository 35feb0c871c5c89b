#include "kernels/memory.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "kernels/kokkos_space.hpp"

namespace weft::kernels {

namespace {

using DeviceMemory = Execution::memory_space;
constexpr std::size_t alignment = 256;
constexpr std::size_t huge_page = std::size_t{2} << 20;

template <class Memory>
using Bytes = Kokkos::View<unsigned char*, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
template <class Memory>
using ConstBytes = Kokkos::View<const unsigned char*, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Calls visit(offset, count) for every piece of `bytes` on the host's threads.
template <class Visit>
void on_host_pieces(const char* name, std::size_t bytes, Visit visit) {
  constexpr std::size_t piece = huge_page;
  using Policy = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::size_t>>;
  Kokkos::parallel_for(name, Policy(0, (bytes + piece - 1) / piece), [=](std::size_t i) {
    const std::size_t offset = i * piece;
    visit(offset, bytes - offset < piece ? bytes - offset : piece);
  });
}

void zero([[maybe_unused]] const Execution& execution, void* data, std::size_t bytes) {
  if (bytes == 0) return;
  auto* to = static_cast<unsigned char*>(data);
  if constexpr (runs_on_host) {
    on_host_pieces("weft::memory::zero", bytes,
                   [=](std::size_t offset, std::size_t count) { std::memset(to + offset, 0, count); });
  } else {
    Kokkos::deep_copy(execution, Bytes<DeviceMemory>(to, bytes), 0);
  }
}

template <class To, class From>
void copy_bytes([[maybe_unused]] const Execution& execution, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  auto* out = static_cast<unsigned char*>(to);
  auto* in = static_cast<const unsigned char*>(from);
  if constexpr (runs_on_host) {
    on_host_pieces("weft::memory::copy", bytes, [=](std::size_t offset, std::size_t count) {
      std::memcpy(out + offset, in + offset, count);
    });
  } else {
    Kokkos::deep_copy(execution, Bytes<To>(out, bytes), ConstBytes<From>(in, bytes));
  }
}

[[maybe_unused]] void* allocate_on_host(std::size_t bytes) {
  const std::size_t grain = bytes >= huge_page ? huge_page : alignment;
  const std::size_t rounded = (bytes + grain - 1) / grain * grain;
  void* p = std::aligned_alloc(grain, rounded);
  if (p == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (grain == huge_page) madvise(p, rounded, MADV_HUGEPAGE);  // it is a wish, whose result does not matter
#endif
  return p;
}

}  // namespace

Buffer::Buffer(std::size_t bytes, [[maybe_unused]] const std::string& label) : size_(bytes) {
  if (bytes == 0) return;
  if constexpr (runs_on_host) {
    allocation_ = allocate_on_host(bytes);
    data_ = static_cast<std::byte*>(allocation_);
  } else {
    // Kokkos puts a header of 128 bytes before what it returns, so its own alignment is too small.
    allocation_ = Kokkos::kokkos_malloc<DeviceMemory>(label, bytes + alignment);
    const auto address = reinterpret_cast<std::uintptr_t>(allocation_);
    data_ = static_cast<std::byte*>(allocation_) + (alignment - address % alignment) % alignment;
  }
  zero_all();
}

Buffer::Buffer(std::shared_ptr<std::byte> memory, std::size_t bytes)
    : adopted_(std::move(memory)), data_(adopted_.get()), size_(bytes) {
  zero_all();
}

void Buffer::zero_all() {
  const Execution execution;
  zero(execution, data_, size_);
  execution.fence("weft::memory::allocate");
}

Buffer::~Buffer() {
  if (allocation_ == nullptr) return;
  if constexpr (runs_on_host)
    std::free(allocation_);
  else
    Kokkos::kokkos_free<DeviceMemory>(allocation_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : adopted_(std::move(other.adopted_)),
      allocation_(std::exchange(other.allocation_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(adopted_, other.adopted_);
  std::swap(allocation_, other.allocation_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void copy_to_device(Space& space, void* device, const void* host, std::size_t bytes) {
  copy_bytes<DeviceMemory, Kokkos::HostSpace>(execution_of(space), device, host, bytes);
  fence(space);
}

void copy_to_host(Space& space, void* host, const void* device, std::size_t bytes) {
  copy_bytes<Kokkos::HostSpace, DeviceMemory>(execution_of(space), host, device, bytes);
  fence(space);
}

Staging::Staging(std::size_t bytes) : size_(bytes) {
  if (!runs_on_host && bytes > 0) pinned_ = Kokkos::kokkos_malloc<PinnedMemory>("weft::staging", bytes);
}

Staging::~Staging() {
  if (pinned_ != nullptr) Kokkos::kokkos_free<PinnedMemory>(pinned_);
}

void Staging::copy_to_device(Space& space, void* device, const void* host, std::size_t bytes) {
  if (bytes > size_ - used_) throw std::logic_error("more is staged than there is room for");
  const void* from = host;
  if constexpr (!runs_on_host) {
    from = std::memcpy(static_cast<std::byte*>(pinned_) + used_, host, bytes);
  }
  used_ += bytes;
  copy_bytes<DeviceMemory, Kokkos::HostSpace>(execution_of(space), device, from, bytes);
}

HostBuffer::HostBuffer(std::size_t bytes) {
  if (bytes == 0) return;
  if constexpr (runs_on_host) {
    data_ = static_cast<std::byte*>(allocate_on_host(bytes));
    zero(Execution(), data_, bytes);
  } else {
    data_ = static_cast<std::byte*>(Kokkos::kokkos_malloc<PinnedMemory>("weft::host_buffer", bytes));
  }
}

HostBuffer::~HostBuffer() {
  if constexpr (runs_on_host)
    std::free(data_);
  else if (data_ != nullptr)
    Kokkos::kokkos_free<PinnedMemory>(data_);
}

void HostBuffer::fetch(Space& space, std::byte* to, const void* device, std::size_t bytes) {
  if constexpr (runs_on_host)
    std::memcpy(to, device, bytes);
  else
    copy_to_host(space, to, device, bytes);
}

void copy(Space& space, void* to, const void* from, std::size_t bytes) {
  copy_bytes<DeviceMemory, DeviceMemory>(execution_of(space), to, from, bytes);
}

void fill_zero(Space& space, void* data, std::size_t bytes) {
  zero(execution_of(space), data, bytes);
}

}  // namespace weft::kernels
