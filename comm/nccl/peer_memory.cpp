#include "comm/nccl/peer_memory.hpp"

#include "comm/nccl/peer_sum.hpp"

#if NCCL_VERSION_CODE >= 22800
#include <nccl_device.h>
#else
struct ncclDevComm {};  // which older versions do not know
#endif

namespace weft::comm::detail {
namespace {

#if NCCL_VERSION_CODE >= 22800
std::string text_of_version(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

/// Why NCCL did not do what was asked for.
std::string refusal(const char* call, ncclResult_t result, ncclComm_t comm) {
  cudaGetLastError();  // this error is nobody else's
  if (result == ncclSuccess) return fmt::format("{} gave nothing", call);
  return fmt::format("{}: {}: {}", call, ncclGetErrorString(result), ncclGetLastError(comm));
}
#endif

}  // namespace

PeerMemory::PeerMemory(ncclComm_t comm, int rank, int size, int most_blocks)
    : comm_(comm), rank_(rank), size_(size), most_blocks_(most_blocks) {}
PeerMemory::~PeerMemory() = default;

#if NCCL_VERSION_CODE >= 22800
// Windows and device communicators are laid out as the headers say that the kernel was compiled with; other
// versions of NCCL have other layouts. Of a communicator NCCL knows from its beginning on which ranks can
// read each other's memory.
std::string PeerMemory::cannot_show() const {
  int version = 0;
  CHECK_NCCL(ncclGetVersion(&version));
  if (version != NCCL_VERSION_CODE)
    return fmt::format("Weft was compiled with the headers of NCCL {}, and runs with NCCL {}",
                       text_of_version(NCCL_VERSION_CODE), text_of_version(version));
  const int near = ncclTeamLsa(comm_).nRanks;
  if (near != size_) return fmt::format("a rank can read the memory of {} of {} ranks", near, size_);
  if (size_ > most_peers) return fmt::format("{} ranks are more than {}", size_, most_peers);
  return {};
}

// The calls are collective, so a rank makes all of them, whatever comes of the first.
std::string PeerMemory::show(std::span<const std::span<std::byte>> memory) {
  std::string why = cannot_show();
  if (!why.empty()) return why;
  for (const std::span<std::byte> bytes : memory) {
    if (bytes.empty()) continue;
    ncclWindow_t window = nullptr;
    const ncclResult_t result =
        ncclCommWindowRegister(comm_, bytes.data(), bytes.size(), &window, NCCL_WIN_COLL_SYMMETRIC);
    if (result == ncclSuccess && window != nullptr) {
      shown_.push_back({bytes, window});
    } else if (why.empty()) {
      why = refusal("ncclCommWindowRegister", result, comm_);
    }
  }
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  ncclDevCommRequirements needs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
  ncclDevCommRequirements needs{};
#endif
  needs.lsaBarrierCount = most_blocks_;
  auto device = std::make_unique<ncclDevComm>();
  const ncclResult_t result = ncclDevCommCreate(comm_, &needs, device.get());
  if (result == ncclSuccess) {
    device_ = std::move(device);
  } else if (why.empty()) {
    why = refusal("ncclDevCommCreate", result, comm_);
  }
  return why;
}

void PeerMemory::hide() {
  if (device_) ncclDevCommDestroy(comm_, device_.get());
  device_.reset();
  for (const Stretch& one : shown_) ncclCommWindowDeregister(comm_, one.window);
  shown_.clear();
}
#else
std::string PeerMemory::cannot_show() const {
  return "Weft was compiled with an NCCL older than 2.28";
}
std::string PeerMemory::show(std::span<const std::span<std::byte>> /*memory*/) {
  return cannot_show();
}
void PeerMemory::hide() {}
#endif

const PeerMemory::Stretch* PeerMemory::find(const void* begin, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  for (const Stretch& one : shown_) {
    const auto first = reinterpret_cast<std::uintptr_t>(one.bytes.data());
    if (address >= first && address - first <= one.bytes.size() &&
        bytes <= one.bytes.size() - (address - first))
      return &one;
  }
  return nullptr;
}

bool PeerMemory::has(const void* begin, std::size_t bytes) const {
  return device_ != nullptr && find(begin, bytes) != nullptr;
}

void PeerMemory::reduce_scatter(cudaStream_t stream, const ReduceScatter& what) const {
  const std::size_t slice = static_cast<std::size_t>(what.count) * size_of(what.wire);
  const Stretch* const stretch = find(what.in, slice * static_cast<std::size_t>(size_));
  const DeviceSum sum{.out = what.out,
                      .count = what.count,
                      .rank = rank_,
                      .size = size_,
                      .wire = what.wire,
                      .out_type = what.out_type,
                      .write = what.write};
  const auto in = static_cast<std::size_t>(static_cast<const std::byte*>(what.in) - stretch->bytes.data());
  const PeerSlices slices{device_.get(), stretch->window, in + static_cast<std::size_t>(rank_) * slice};
  CHECK_CUDA(static_cast<cudaError_t>(peer_sum_on_device(stream, sum, slices, most_blocks_)));
}

}  // namespace weft::comm::detail
