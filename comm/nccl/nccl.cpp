#include "comm/nccl/nccl.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "comm/nccl/blocks.hpp"
#include "comm/nccl/check_cuda.hpp"
#include "comm/nccl/nccl_channel.hpp"
#include "comm/nccl/sharers.hpp"

namespace weft::comm {
namespace {

static_assert(NCCL_VERSION_CODE >= 21900, "Weft needs NCCL 2.19, which registers buffers");

/// The priority of a lane's stream. Communication goes before compute: its kernels have few blocks, and all
/// of them must run before any can end. Of two collectives the one goes first whose result is wanted sooner:
/// a gather's by the next kernels, a reduction's by the sum over replicas, and that sum's at the end of the
/// step.
int priority_of(Lane lane) {
  int least = 0, greatest = 0;  // smaller numbers go first
  CHECK_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  switch (lane) {
    case Lane::compute: return least;
    case Lane::gather:
    case Lane::from_previous:
    case Lane::to_next:
    case Lane::from_next:
    case Lane::to_previous: return greatest;
    case Lane::reduce: return std::min(greatest + 1, least);
    case Lane::replica:
    case Lane::pipe:
    case Lane::tensor:
    case Lane::copies:
    case Lane::context: return std::min(greatest + 2, least);
  }
  return least;
}

class NcclWorld final : public World {
 public:
  explicit NcclWorld(std::unique_ptr<World> host) : host_(std::move(host)) {
    connect_through(*host_);
    look_at(bind_device(*host_));
  }
  ~NcclWorld() override { disconnect(); }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  int device_sharers() const override { return sharers_; }
  std::string failure() override { return communicators_.failure(); }
  [[noreturn]] void abort(int code) override { end_all_ranks(code); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    void* memory = nullptr;
    if (size() == 1 || bytes == 0) return nullptr;
    if (ncclMemAlloc(&memory, bytes) != ncclSuccess) {
      cudaGetLastError();  // this error is nobody else's
      return nullptr;
    }
    return {static_cast<std::byte*>(memory), [](std::byte* p) { ncclMemFree(p); }};
  }

 protected:
  std::unique_ptr<Channel> open_channel(const std::vector<int>& ranks, Lane lane, std::string name,
                                        const ChannelOptions& options) override {
    const int size = static_cast<int>(ranks.size());
    const int me = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
    ncclUniqueId id{};
    if (me == 0) CHECK_NCCL(ncclGetUniqueId(&id));
    const std::unique_ptr<Channel> bootstrap = host_->open(ranks, lane, name + ".bootstrap");
    sync(bootstrap->broadcast({}, &id, sizeof id, 0));

    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int blocks = blocks_of_a_lane;
    if (!options.open_at_once.empty())
      config.maxCTAs = blocks = most_blocks(lane, options.open_at_once, multiprocessors_);
    CHECK_NCCL(ncclCommInitRankConfig(&comm, size, id, me, &config));
    cudaStream_t stream = nullptr;
    CHECK_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority_of(lane)));
    return std::make_unique<detail::NcclChannel>(me, size, lane, std::move(name), comm, stream, blocks,
                                                 communicators_);
  }

 private:
  /// Counts the ranks whose device is this one, and what each has of it. Numbers of devices do not tell: a
  /// launcher may show each rank only its own, as number 0. Nor do their places on the bus, which the
  /// instances (MIG) of a GPU have in common.
  void look_at(int device) {
    cudaDeviceProp properties{};
    CHECK_CUDA(cudaGetDeviceProperties(&properties, device));
    std::string mine = host() + ' ';
    for (const char byte : properties.uuid.bytes)
      mine += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    std::string all;
    for (const std::string& theirs : host_->gather_strings(mine)) all += theirs + '\n';
    sharers_ = count_sharers(host_->broadcast(std::move(all), 0), mine);
    std::array<double, 1> least{-static_cast<double>(properties.multiProcessorCount / sharers_)};
    host_->all_reduce_max(least);  // all ranks of a communicator must give it the same limit
    multiprocessors_ = static_cast<int>(-least[0]);
  }

  std::unique_ptr<World> host_;
  detail::OpenCommunicators communicators_;
  int sharers_ = 1;
  int multiprocessors_ = 0;  ///< that a rank has, on the rank that has the fewest
};

}  // namespace

int bind_device(const World& world) {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  WEFT_SYSTEM(code == cudaSuccess && devices > 0,
              "no CUDA device on {} ({}); run where there is one, or use the cpu preset's program",
              world.host(), cudaGetErrorString(code));
  const int device = world.node_rank() % devices;
  CHECK_CUDA(cudaSetDevice(device));
  return device;
}

std::unique_ptr<World> make_nccl_world(std::unique_ptr<World> host) {
  return std::make_unique<NcclWorld>(std::move(host));
}

}  // namespace weft::comm
