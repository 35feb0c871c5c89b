// Device memory: a file in memory that the host maps without rights, and that other ranks map to read. A
// block ends where a page ends, with a page without rights behind it, and its address is not given out again.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "fakecuda/device.hpp"

namespace fakecuda {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t alignment = 256;  // that of cudaMalloc
constexpr std::size_t region_bytes = std::size_t{256} << 30;

/// The memory of a device: FAKECUDA_MEMORY, in MiB.
std::size_t device_bytes() {
  static const char* const text = std::getenv("FAKECUDA_MEMORY");
  return (text != nullptr ? std::strtoull(text, nullptr, 10) : 16384) << 20;
}

struct Block {
  std::size_t bytes = 0;
  std::uintptr_t first_page = 0;
  std::size_t mapped = 0;
};

struct Memory {
  Region region;
  std::map<std::uintptr_t, Block> blocks;        ///< by address
  std::map<std::uintptr_t, std::size_t> pinned;  ///< bytes of host memory, by address
  std::uintptr_t next = 0;
  std::size_t held = 0;
  int open = 0;
  std::recursive_mutex mutex;
};

Memory& memory();

void tell_of_fault(int signal, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const Region r = memory().region;
  if (address >= r.begin && address < r.begin + r.bytes) {
    const auto line =
        "fakecuda: the host touches memory of the device, or a kernel touches what no allocation holds\n";
    if (write(STDERR_FILENO, line, std::strlen(line)) < 0) std::abort();
  }
  ::signal(signal, SIG_DFL);  // it faults again, and ends with a core
}

Memory& memory() {
  // It is never destroyed, because static objects free memory at the process' end.
  static Memory& m = *[] {
    auto* made = new Memory;
    made->region.file = memfd_create("fakecuda", 0);
    made->region.bytes = region_bytes;
    if (made->region.file < 0 || ftruncate(made->region.file, region_bytes) != 0)
      fail("no room for the memory of a device");
    void* at = mmap(nullptr, region_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, made->region.file, 0);
    if (at == MAP_FAILED) fail("no addresses for the memory of a device");
    made->region.begin = reinterpret_cast<std::uintptr_t>(at);
    made->next = made->region.begin + page;
    return made;
  }();
  static const bool handles = [] {
    struct sigaction action {};
    action.sa_sigaction = tell_of_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    return true;
  }();
  static_cast<void>(handles);
  return m;
}

void protect(const Block& block, int rights) {
  if (mprotect(reinterpret_cast<void*>(block.first_page), block.mapped, rights) != 0) fail("mprotect failed");
}

}  // namespace

Region region() {
  return memory().region;
}

Access::Access() {
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  if (m.open++ == 0)
    for (const auto& [address, block] : m.blocks) protect(block, PROT_READ | PROT_WRITE);
}

Access::~Access() {
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  if (--m.open == 0)
    for (const auto& [address, block] : m.blocks) protect(block, PROT_NONE);
}

bool on_device(const void* p, std::size_t bytes) {
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  auto above = m.blocks.upper_bound(address);
  if (above == m.blocks.begin()) return false;
  const auto& [begin, block] = *--above;
  return address - begin <= block.bytes && bytes <= block.bytes - (address - begin);
}

bool is_pinned(const void* p, std::size_t bytes) {
  Memory& m = memory();
  const std::scoped_lock lock(m.mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  auto above = m.pinned.upper_bound(address);
  if (above == m.pinned.begin()) return false;
  const auto& [begin, size] = *--above;
  return address - begin <= size && bytes <= size - (address - begin);
}

void refuse_host_memory(const char* call, const char* operand, const void* p, std::size_t bytes) {
  if (bytes > 0 && !on_device(p, bytes))
    fail(std::string(call) + ": " + operand + " (" + std::to_string(bytes) +
         " bytes) lies in no allocation of the device");
}

}  // namespace fakecuda

using fakecuda::memory;

cudaError_t cudaMalloc(void** result, std::size_t bytes) {
  *result = nullptr;
  if (bytes == 0) return cudaSuccess;
  auto& m = memory();
  std::unique_lock lock(m.mutex);
  const std::size_t whole = (bytes + fakecuda::alignment - 1) / fakecuda::alignment * fakecuda::alignment;
  fakecuda::Block block{bytes, m.next, (whole + fakecuda::page - 1) / fakecuda::page * fakecuda::page};
  const std::uintptr_t end = m.next + block.mapped;
  if (m.held + block.mapped > fakecuda::device_bytes() ||
      end + fakecuda::page > m.region.begin + m.region.bytes)
    return cudaErrorMemoryAllocation;
  const std::uintptr_t address = end - whole;
  m.next = end + fakecuda::page;
  m.held += block.mapped;
  protect(block, PROT_READ | PROT_WRITE);
  // All bits set is a NaN in every type, and a number that no index can be.
  std::memset(reinterpret_cast<void*>(block.first_page), 0xff, block.mapped);
  if (m.open == 0) protect(block, PROT_NONE);
  m.blocks.emplace(address, block);
  *result = reinterpret_cast<void*>(address);
  lock.unlock();  // queues, whose lock comes before this one, count
  fakecuda::count_object("allocations of device memory", 1);
  return cudaSuccess;
}

cudaError_t cudaFree(void* p) {
  if (p == nullptr) return cudaSuccess;
  fakecuda::wait_for_device();  // as CUDA does: all that may use it has run
  auto& m = memory();
  std::unique_lock lock(m.mutex);
  const auto found = m.blocks.find(reinterpret_cast<std::uintptr_t>(p));
  if (found == m.blocks.end()) return cudaErrorInvalidValue;
  protect(found->second, PROT_NONE);
  m.held -= found->second.mapped;
  fallocate(m.region.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(found->second.first_page - m.region.begin),
            static_cast<off_t>(found->second.mapped));
  m.blocks.erase(found);
  lock.unlock();
  fakecuda::count_object("allocations of device memory", -1);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** result, std::size_t bytes, unsigned /*flags*/) {
  *result = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::size_t whole = (bytes + fakecuda::page - 1) / fakecuda::page * fakecuda::page;
  void* const p = std::aligned_alloc(fakecuda::page, whole);
  if (p == nullptr) return cudaErrorMemoryAllocation;
  std::memset(p, 0xff, whole);
  auto& m = memory();
  {
    const std::scoped_lock lock(m.mutex);
    m.pinned.emplace(reinterpret_cast<std::uintptr_t>(p), bytes);
  }
  fakecuda::count_object("allocations of pinned memory", 1);
  *result = p;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* p) {
  if (p == nullptr) return cudaSuccess;
  fakecuda::wait_for_device();  // as CUDA does: all that may use it has run
  auto& m = memory();
  {
    const std::scoped_lock lock(m.mutex);
    if (m.pinned.erase(reinterpret_cast<std::uintptr_t>(p)) == 0) return cudaErrorInvalidValue;
  }
  std::free(p);
  fakecuda::count_object("allocations of pinned memory", -1);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  auto& m = memory();
  const std::scoped_lock lock(m.mutex);
  *total = fakecuda::device_bytes();
  *free = *total - m.held;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  fakecuda::refuse_host_memory("cudaMemset", "what is set", to, bytes);
  return fakecuda::enqueue_call(stream, "memset", [=] { std::memset(to, value, bytes); });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);  // the host does not wait for it, in CUDA neither
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice)
    fakecuda::refuse_host_memory("cudaMemcpy", "the target", to, bytes);
  if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice)
    fakecuda::refuse_host_memory("cudaMemcpy", "the source", from, bytes);
  const void* host = kind == cudaMemcpyHostToDevice ? from : kind == cudaMemcpyDeviceToHost ? to : nullptr;
  if (host != nullptr && bytes > 0 && fakecuda::on_device(host, 1))
    fakecuda::fail("cudaMemcpy: what is to be the host's is the device's");
  const bool pageable = host != nullptr && bytes > 0 && !fakecuda::is_pinned(host, bytes);
  if (pageable)
    if (const cudaError_t error = fakecuda::refuse_capture(stream); error != cudaSuccess) return error;
  std::shared_ptr<const std::vector<std::byte>> staged;
  if (pageable && kind == cudaMemcpyHostToDevice) {  // CUDA has read it when the call returns
    const auto* const first = static_cast<const std::byte*>(from);
    staged = std::make_shared<const std::vector<std::byte>>(first, first + bytes);
    from = staged->data();
  }
  const cudaError_t error = fakecuda::enqueue_copy(stream, "a copy", [=] {
    return fakecuda::Work([=, kept = staged] {
      std::memcpy(to, from, bytes);
      return fakecuda::Turn::done;
    });
  });
  // CUDA returns when it has arrived.
  if (error == cudaSuccess && pageable && kind == cudaMemcpyDeviceToHost) return fakecuda::drain(stream);
  return error;
}
