#include "support/mpi_environment.hpp"

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "comm/channel.hpp"
#include "comm/event.hpp"
#ifdef WEFT_CUDA
#include "comm/nccl/nccl.hpp"
#endif

namespace weft::test {
namespace {

std::unique_ptr<comm::World>& instance() {
  static std::unique_ptr<comm::World> world;
  return world;
}

// The channel on which ranks tell each other how a test ended. It is one of its own, because a rank that
// failed in the middle of a test must not answer another rank's collective with this one.
std::unique_ptr<comm::Channel>& verdicts() {
  static std::unique_ptr<comm::Channel> channel;
  return channel;
}

bool any_failed(bool failed) {
  std::int64_t count = failed ? 1 : 0;
  comm::sync(verdicts()->all_reduce({}, &count, 1, DType::i64, comm::ReduceOp::sum));
  return count > 0;
}

}  // namespace

comm::World& world() {
  return *instance();
}

namespace detail {

void start_mpi(int* argc, char*** argv) {
  instance() = comm::make_world(argc, argv);
  std::vector<int> everyone(static_cast<std::size_t>(world().size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  verdicts() = world().open(everyone, Lane::compute, "verdicts");
#ifdef WEFT_CUDA
  // What kernels of the device make lies in its memory, which only this world's channels take.
  if (has_runtime(Runtime::Order::kokkos)) instance() = comm::make_nccl_world(std::move(instance()));
#endif
  set_ranks({world().rank(), world().size(), any_failed});
}

void stop_mpi() {
  set_ranks({world().rank(), world().size(), nullptr});
  verdicts().reset();
  instance().reset();
}

}  // namespace detail
}  // namespace weft::test
