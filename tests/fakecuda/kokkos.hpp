// What Kokkos' CUDA back end is to Weft's kernels, on a device that is not there: an execution space whose
// kernels are put on a stream, and whose teams have the device's sizes. kernels/kokkos_space.hpp takes it in
// the preset fakecuda; nothing else includes it.
//
// The threads of a team take turns, each until the team's next barrier, in an order that is drawn by lot. So
// a barrier that is missing shows as a wrong result.
#pragma once

#include <cuda_runtime.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace fakecuda {

class Execution;
class Team;

/// Kokkos puts as many bytes before what it allocates.
inline constexpr std::size_t allocation_header = 128;

/// Stands for Kokkos::CudaSpace.
struct DeviceMemory {
  using memory_space = DeviceMemory;
  using execution_space = Execution;
  using device_type = Kokkos::Device<Execution, DeviceMemory>;
  using size_type = std::size_t;
  static constexpr const char* name() { return "FakeCuda"; }
};

/// Stands for Kokkos::SharedHostPinnedSpace.
struct PinnedMemory {};

class Execution {
 public:
  using execution_space = Execution;
  using memory_space = DeviceMemory;
  using device_type = Kokkos::Device<Execution, DeviceMemory>;
  using array_layout = Kokkos::LayoutLeft;
  using size_type = std::size_t;
  using scratch_memory_space = Kokkos::ScratchMemorySpace<Kokkos::DefaultHostExecutionSpace>;

  /// The default instance, whose stream the process keeps. It is a blocking one, like all that Kokkos makes.
  Execution();
  /// An instance on a stream that somebody else destroys, after the last copy.
  explicit Execution(cudaStream_t stream);
  /// An instance with a blocking stream of its own, destroyed with the last copy.
  static Execution with_stream();

  cudaStream_t cuda_stream() const { return instance_->stream; }
  int cuda_device() const { return instance_->device; }
  /// Makes the instance's device the thread's, as every call of Kokkos does.
  void use_device() const;
  void fence(const std::string& name = {}) const;
  static int concurrency() { return 132 * 2048; }
  /// Puts on the stream what ends the process unless the flags of the instance's reductions are cleared.
  void use_flags(const std::string& name) const;

 private:
  struct Instance {
    int device;
    cudaStream_t stream;
    std::shared_ptr<bool> flags_cleared;
  };
  enum class Stream { own, lent };
  Execution(cudaStream_t stream, Stream whose);
  std::shared_ptr<const Instance> instance_;
};

/// What a team combines: a value of each thread, and the result.
struct Slots {
  std::vector<float> values;
  float result = 0;
  bool combined = false;
};

/// A thread of a team.
class Thread {
 public:
  int league_rank() const { return league_rank_; }
  int team_rank() const { return team_rank_; }
  int team_size() const { return team_size_; }
  void team_barrier() const;

  /// Gives the next piece of the team's scratch memory, the same to all threads that ask as often.
  class Scratch {
   public:
    explicit Scratch(const Thread& thread) : thread_(thread) {}
    void* get_shmem(std::size_t bytes) const;

   private:
    const Thread& thread_;
  };
  Scratch team_shmem() const { return Scratch(*this); }
  Slots& slots() const { return *slots_; }

 private:
  friend class Team;
  int league_rank_ = 0, team_rank_ = 0, team_size_ = 0;
  Team* team_ = nullptr;
  Slots* slots_ = nullptr;
  mutable std::size_t scratch_used_ = 0;
};

/// What Kokkos 4.7 passes to a kernel behind its functor: the policy, and what it knows of a launch of teams.
inline constexpr std::size_t range_bytes = 48, team_bytes = 152;
template <class F, std::size_t policy_bytes>
struct Arguments {
  F functor;
  alignas(8) std::byte policy[policy_bytes];
};
/// Whether a kernel can be captured. From 512 bytes on Kokkos passes its arguments by way of constant memory,
/// for whose last user the host waits.
template <class F, std::size_t policy_bytes>
inline constexpr bool can_be_captured = sizeof(Arguments<F, policy_bytes>) < 512;

/// Puts kernels on the stream. The functor's copy is the kernel's arguments.
void launch_range(const Execution&, const std::string& name, std::int64_t begin, std::int64_t end,
                  std::function<void(std::int64_t)> body);
void launch_teams(const Execution&, const std::string& name, int league, int team, std::size_t scratch_bytes,
                  std::function<void(const Thread&)> body);
void copy_bytes(const Execution&, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
void set_bytes(const Execution&, void* to, int value, std::size_t bytes);

/// Every team_size-th index from the thread's own.
struct Stripes {
  const Thread& thread;
  std::int64_t count;

  template <class F>
  void each(const F& f) const {
    for (std::int64_t i = thread.team_rank(); i < count; i += thread.team_size()) f(i);
  }
};

/// Combines what f(i, own) makes of each thread's own value, which begins as `identity`.
template <class F, class Combine>
float reduce(const Stripes& stripes, float identity, const F& f, const Combine& combine) {
  const Thread& t = stripes.thread;
  float own = identity;
  stripes.each([&](std::int64_t i) { f(i, own); });
  Slots& slots = t.slots();
  slots.values[static_cast<std::size_t>(t.team_rank())] = own;
  slots.combined = false;
  t.team_barrier();
  if (!slots.combined) {  // the first thread here does it for all
    slots.result = identity;
    for (const float value : slots.values) slots.result = combine(slots.result, value);
    slots.combined = true;
  }
  const float all = slots.result;
  t.team_barrier();
  return all;
}

}  // namespace fakecuda

namespace Kokkos {

template <class... Properties>
class RangePolicy<fakecuda::Execution, Properties...> {
 public:
  RangePolicy(const fakecuda::Execution& on, std::int64_t first, std::int64_t last)
      : space(on), begin(first), end(last) {}
  RangePolicy(const fakecuda::Execution& on, std::int64_t first, std::int64_t last, ChunkSize)
      : RangePolicy(on, first, last) {}
  fakecuda::Execution space;
  std::int64_t begin, end;
};

template <class... Properties>
class TeamPolicy<fakecuda::Execution, Properties...> {
 public:
  using member_type = fakecuda::Thread;
  TeamPolicy(const fakecuda::Execution& on, int teams, int threads)
      : space(on), league(teams), team(threads) {}
  TeamPolicy& set_scratch_size(int /*level*/, const Impl::PerTeamValue& bytes) {
    scratch = bytes.value;
    return *this;
  }
  fakecuda::Execution space;
  int league, team;
  std::size_t scratch = 0;
};

template <class T>
class View<T*, fakecuda::DeviceMemory, MemoryTraits<Unmanaged>> {
 public:
  View(T* data, std::size_t size) : data_(data), size_(size) {}
  T* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  T* data_;
  std::size_t size_;
};

template <>
inline void* kokkos_malloc<fakecuda::DeviceMemory>(const std::string& label, std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes + fakecuda::allocation_header) != cudaSuccess)
    throw std::runtime_error("no device memory for " + label + " (" + std::to_string(bytes) + " bytes)");
  return static_cast<std::byte*>(memory) + fakecuda::allocation_header;
}
template <>
inline void kokkos_free<fakecuda::DeviceMemory>(void* memory) {
  if (cudaFree(static_cast<std::byte*>(memory) - fakecuda::allocation_header) != cudaSuccess)
    throw std::runtime_error("kokkos_free: no such memory");
}

template <>
inline void* kokkos_malloc<fakecuda::PinnedMemory>(const std::string& label, std::size_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) != cudaSuccess)
    throw std::runtime_error("no pinned memory for " + label + " (" + std::to_string(bytes) + " bytes)");
  return memory;
}
template <>
inline void kokkos_free<fakecuda::PinnedMemory>(void* memory) {
  if (cudaFreeHost(memory) != cudaSuccess) throw std::runtime_error("kokkos_free: no such pinned memory");
}

template <class T, class... P>
void deep_copy(const fakecuda::Execution& on, const View<T*, fakecuda::DeviceMemory, P...>& to, int value) {
  fakecuda::set_bytes(on, to.data(), value, to.size() * sizeof(T));
}
template <class T, class U, class To, class From>
requires(
    std::is_same_v<To, fakecuda::DeviceMemory> ||
    std::is_same_v<
        From, fakecuda::DeviceMemory>) void deep_copy(const fakecuda::Execution& on,
                                                      const View<T*, To, MemoryTraits<Unmanaged>>& to,
                                                      const View<U*, From, MemoryTraits<Unmanaged>>& from) {
  constexpr bool to_device = std::is_same_v<To, fakecuda::DeviceMemory>,
                 from_device = std::is_same_v<From, fakecuda::DeviceMemory>;
  fakecuda::copy_bytes(on, to.data(), from.data(), to.size() * sizeof(T),
                       !from_device ? cudaMemcpyHostToDevice
                       : to_device  ? cudaMemcpyDeviceToDevice
                                    : cudaMemcpyDeviceToHost);
}

template <class... P, class F>
void parallel_for(const std::string& name, const RangePolicy<fakecuda::Execution, P...>& policy, const F& f) {
  static_assert(fakecuda::can_be_captured<F, fakecuda::range_bytes>,
                "the functor has more than 456 bytes, with which Kokkos' launch cannot be captured");
  fakecuda::launch_range(policy.space, name, policy.begin, policy.end, [f](std::int64_t i) { f(i); });
}
template <class... P, class F>
void parallel_for(const std::string& name, const TeamPolicy<fakecuda::Execution, P...>& policy, const F& f) {
  static_assert(fakecuda::can_be_captured<F, fakecuda::team_bytes>,
                "the functor has more than 352 bytes, with which Kokkos' launch of teams cannot be captured");
  fakecuda::launch_teams(policy.space, name, policy.league, policy.team, policy.scratch,
                         [f](const fakecuda::Thread& t) { f(t); });
}
/// A sum that the host wants: it waits for it.
template <class... P, class F, class... Sums>
void parallel_reduce(const std::string& name, const RangePolicy<fakecuda::Execution, P...>& policy,
                     const F& f, Sums&... sums) {
  ((sums = Sums{}), ...);
  policy.space.use_flags(name);
  fakecuda::launch_range(policy.space, name, policy.begin, policy.end,
                         [&](std::int64_t i) { f(i, sums...); });
  policy.space.fence();
}

template <class N>
fakecuda::Stripes TeamVectorRange(const fakecuda::Thread& thread, N count) {
  return {thread, static_cast<std::int64_t>(count)};
}
template <class N>
fakecuda::Stripes TeamThreadRange(const fakecuda::Thread& thread, N count) {
  return {thread, static_cast<std::int64_t>(count)};
}
template <class F>
void parallel_for(const fakecuda::Stripes& stripes, const F& f) {
  stripes.each(f);
}
template <class F>
void parallel_reduce(const fakecuda::Stripes& stripes, const F& f, float& sum) {
  sum = fakecuda::reduce(stripes, 0.0F, f, [](float all, float x) { return all + x; });
}
template <class F>
void parallel_reduce(const fakecuda::Stripes& stripes, const F& f, const Max<float>& largest) {
  largest.reference() = fakecuda::reduce(stripes, -Experimental::infinity_v<float>, f,
                                         [](float all, float x) { return x > all ? x : all; });
}
inline Impl::ThreadSingleStruct<fakecuda::Thread> PerTeam(const fakecuda::Thread& thread) {
  return {thread};
}
template <class F>
void single(const Impl::ThreadSingleStruct<fakecuda::Thread>& one, const F& f) {
  if (one.team_member.team_rank() == 0) f();
}

namespace Experimental {
inline std::vector<fakecuda::Execution> partition_space(const fakecuda::Execution&, int) {
  return {fakecuda::Execution::with_stream()};
}
}  // namespace Experimental

}  // namespace Kokkos
