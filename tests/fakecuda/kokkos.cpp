// Kernels on a stream. A team's threads are coroutines on stacks of their own, which change at barriers.
#include "fakecuda/kokkos.hpp"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <typeinfo>

#include "fakecuda/device.hpp"

namespace fakecuda {
namespace {

constexpr std::size_t stack_bytes = std::size_t{128} << 10;

void check(cudaError_t error, const std::string& name) {
  if (error != cudaSuccess)
    throw std::runtime_error("the launch of " + name + " failed: " + cudaGetErrorString(error));
}

cudaStream_t blocking_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "Kokkos");
  return stream;
}

/// Tells a tool of Kokkos of a launch.
class Told {
 public:
  explicit Told(const std::string& name) {
    if (Kokkos::Profiling::profileLibraryLoaded()) Kokkos::Profiling::beginParallelFor(name, 0, &id_);
  }
  ~Told() {
    if (Kokkos::Profiling::profileLibraryLoaded()) Kokkos::Profiling::endParallelFor(id_);
  }

 private:
  std::uint64_t id_ = 0;
};

/// Appends a kernel that is launched to the file FAKECUDA_KERNELS. Its body's mangled type has the functor's
/// in it, as a kernel's mangled name has on a device.
void list_kernel(const std::type_info& body) {
  const char* const file = std::getenv("FAKECUDA_KERNELS");
  if (file == nullptr) return;
  std::ofstream list(file, std::ios::app);
  if (!(list << std::string(body.name()) + "\n" << std::flush))
    fail(std::string("FAKECUDA_KERNELS: cannot write to ") + file);
}

}  // namespace

/// The teams of a size, one after another. Their threads are made once and serve all launches.
class Team {
 public:
  using Body = std::function<void(const Thread&)>;

  static Team& of_size(int size) {
    static std::map<int, Team>& all = *new std::map<int, Team>;
    return all.try_emplace(size, size).first->second;
  }

  explicit Team(int size) : threads_(static_cast<std::size_t>(size)) {
    slots_.values.resize(threads_.size());
    void* stacks = mmap(nullptr, threads_.size() * stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) fail("no memory for the stacks of a team");
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      Fiber& fiber = threads_[t];
      fiber.thread.team_rank_ = static_cast<int>(t);
      fiber.thread.team_size_ = size;
      fiber.thread.team_ = this;
      fiber.thread.slots_ = &slots_;
      fiber.stack = static_cast<std::byte*>(stacks) + t * stack_bytes;
    }
  }

  void run(int league, std::size_t scratch_bytes, const Body& body) {
    body_ = &body;
    scratch_.resize(scratch_bytes);
    for (int rank = 0; rank < league; ++rank) run_team(rank);
  }

  /// The running thread lets the others have their turns.
  void barrier() {
    if (_setjmp(current_->place) == 0) _longjmp(scheduler_, 1);
  }

  void* scratch(const Thread& thread, std::size_t bytes) {
    constexpr std::size_t grain = 8;
    const std::size_t at = thread.scratch_used_;
    thread.scratch_used_ += (bytes + grain - 1) / grain * grain;
    if (thread.scratch_used_ > scratch_.size()) return nullptr;
    return scratch_.data() + at;
  }

 private:
  struct Fiber {
    Thread thread;
    std::byte* stack = nullptr;
    jmp_buf place{};  ///< where it stands
    bool started = false, ended = false;
  };

  void run_team(int league_rank) {
    // What is in shared memory at first is what another kernel left there.
    std::memset(scratch_.data(), 0xff, scratch_.size());
    for (Fiber& fiber : threads_) {
      fiber.thread.league_rank_ = league_rank;
      fiber.thread.scratch_used_ = 0;
      fiber.ended = false;
    }
    const std::size_t n = threads_.size();
    for (std::size_t left = n; left > 0;) {
      const std::size_t first = draw(n);
      const bool down = draw(2) == 0;
      for (std::size_t i = 0; i < n; ++i) {
        Fiber& fiber = threads_[(first + (down ? n - i : i)) % n];
        if (fiber.ended) continue;
        go_on(fiber);
        if (fiber.ended) --left;
      }
    }
  }

  /// Lets a thread go on until its next barrier or its end. It begins on a context of its own stack; from
  /// then on jumps lead there and back, which call nothing of the system.
  void go_on(Fiber& fiber) {
    current_ = &fiber;
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    running_ = this;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = fiber.stack;
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    makecontext(&context, &Team::work, 0);
    setcontext(&context);
  }

  /// What a thread does: its part of one team after another.
  static void work() {
    Team& team = *running_;
    Fiber& fiber = *team.current_;
    for (;;) {
      (*team.body_)(fiber.thread);
      fiber.ended = true;
      team.barrier();
    }
  }

  const Body* body_ = nullptr;
  std::vector<std::byte> scratch_;
  std::vector<Fiber> threads_;
  Slots slots_;
  jmp_buf scheduler_{};
  Fiber* current_ = nullptr;
  static inline Team* running_ = nullptr;
};

void Thread::team_barrier() const {
  team_->barrier();
}

void* Thread::Scratch::get_shmem(std::size_t bytes) const {
  return thread_.team_->scratch(thread_, bytes);
}

Execution::Execution() {
  // On the device that was the thread's when Kokkos started.
  static const Execution& first = *new Execution(blocking_stream(), Stream::own);
  *this = first;
}

Execution::Execution(cudaStream_t stream) : Execution(stream, Stream::lent) {}

Execution::Execution(cudaStream_t stream, Stream whose) {
  auto* const made = new Instance{device_of(stream), stream, std::make_shared<bool>(false)};
  instance_ = std::shared_ptr<const Instance>(made, [whose](const Instance* instance) {
    cudaStreamSynchronize(instance->stream);  // Kokkos frees memory here, which waits for the device
    if (whose == Stream::own) cudaStreamDestroy(instance->stream);
    delete instance;
  });
  use_device();
  check(enqueue_call(cudaStreamLegacy, "Kokkos", [cleared = made->flags_cleared] { *cleared = true; }),
        "Kokkos");
}

Execution Execution::with_stream() {
  Execution().use_device();
  return {blocking_stream(), Stream::own};
}

void Execution::use_device() const {
  check(cudaSetDevice(instance_->device), "Kokkos");
}

void Execution::use_flags(const std::string& name) const {
  use_device();
  check(enqueue_call(cuda_stream(), name,
                     [cleared = instance_->flags_cleared, name] {
                       if (!*cleared)
                         fail(name + " counts with flags that the legacy stream has not cleared yet");
                     }),
        name);
}

void Execution::fence(const std::string& name) const {
  use_device();
  check(drain(cuda_stream()), name);
}

void launch_range(const Execution& on, const std::string& name, std::int64_t begin, std::int64_t end,
                  std::function<void(std::int64_t)> body) {
  const Told told(name);
  list_kernel(body.target_type());
  on.use_device();
  check(enqueue_call(on.cuda_stream(), name,
                     [begin, end, body = std::move(body)] {
                       if (draw(2) == 0)
                         for (std::int64_t i = begin; i < end; ++i) body(i);
                       else
                         for (std::int64_t i = end; i-- > begin;) body(i);
                     }),
        name);
}

void launch_teams(const Execution& on, const std::string& name, int league, int team,
                  std::size_t scratch_bytes, std::function<void(const Thread&)> body) {
  // A block has more only where a kernel asks for it, which Kokkos does not do. Its teams keep a number for
  // each thread there, and two more.
  constexpr std::size_t most_shared = 48 << 10;
  const std::size_t for_team = sizeof(double) * static_cast<std::size_t>(team + 2);
  if (team > 1024 || for_team + scratch_bytes > most_shared)
    throw std::runtime_error(name + ": Kokkos starts no team of " + std::to_string(team) + " threads with " +
                             std::to_string(scratch_bytes) + " bytes of scratch");
  const Told told(name);
  list_kernel(body.target_type());
  on.use_device();
  check(enqueue_call(on.cuda_stream(), name,
                     [league, team, scratch_bytes, body = std::move(body)] {
                       Team::of_size(team).run(league, scratch_bytes, body);
                     }),
        name);
}

void copy_bytes(const Execution& on, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  on.use_device();
  check(cudaMemcpyAsync(to, from, bytes, kind, on.cuda_stream()), "a copy");
}

void set_bytes(const Execution& on, void* to, int value, std::size_t bytes) {
  on.use_device();
  check(cudaMemsetAsync(to, value, bytes, on.cuda_stream()), "a memset");
}

}  // namespace fakecuda
