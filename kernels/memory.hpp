// Device memory and the copies to and from it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/space.hpp"

namespace weft::kernels {

/// Owns device memory, zeroed, aligned to 256 bytes. On the host, buffers of 2 MiB and more ask for huge
/// pages and are first touched by all threads. Throws std::bad_alloc or Kokkos' exception when there is not
/// enough.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t bytes, const std::string& label);
  /// Takes memory that somebody else allocated, aligned to 256 bytes.
  Buffer(std::shared_ptr<std::byte> memory, std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void zero_all();

  std::shared_ptr<std::byte> adopted_;
  void* allocation_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Copies from host to device, and below from device to host. The bytes have arrived when these return. They
/// wait for the kernels before them.
void copy_to_device(Space& space, void* device, const void* host, std::size_t bytes);
void copy_to_host(Space& space, void* host, const void* device, std::size_t bytes);

/// Copies from host to device without a wait, for what a step uploads: through pinned memory of its own on
/// CUDA, and at once where the device is the host.
class Staging {
 public:
  /// Makes room for copies of this many bytes between two calls of reuse().
  explicit Staging(std::size_t bytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies in the order of `space`; `host` may change as soon as this returns. Throws std::logic_error when
  /// there is no room left.
  void copy_to_device(Space& space, void* device, const void* host, std::size_t bytes);
  /// Call it when all copies so far have arrived: their room is free again.
  void reuse() { used_ = 0; }

 private:
  void* pinned_ = nullptr;
  std::size_t size_, used_ = 0;
};

/// Host memory that the device copies to at its full rate (pinned on CUDA), touched when it is made.
class HostBuffer {
 public:
  explicit HostBuffer(std::size_t bytes);
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  std::byte* data() const { return data_; }
  /// Copies from the device to `to`, inside of the buffer; the bytes are there when it returns. It is for a
  /// thread beside the one that launches kernels, with a `space` of its own, and takes no part in the host's
  /// parallel loops.
  static void fetch(Space& space, std::byte* to, const void* device, std::size_t bytes);

 private:
  std::byte* data_ = nullptr;
};

/// Copies from device to device, in the order of `space`. The ranges must not overlap.
void copy(Space& space, void* to, const void* from, std::size_t bytes);
void fill_zero(Space& space, void* data, std::size_t bytes);

}  // namespace weft::kernels
