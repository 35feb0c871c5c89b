#include "cli/world.hpp"

#include <string>

#include "base/check.hpp"
#include "base/device.hpp"
#include "base/log.hpp"
#include "cli/app.hpp"
#ifdef WEFT_CUDA
#include <cstdlib>

#include "comm/nccl/nccl.hpp"
#endif

namespace weft::cli {

std::unique_ptr<comm::World> make_training_world(Context& context) {
#ifdef WEFT_CUDA
  // A mesh of three axes has a dozen streams, and NCCL has its own. CUDA has eight queues to a device, unless
  // it is asked for more, and streams that share one wait for each other without need. CUDA reads this when
  // it starts, which MPI may cause.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
#endif
  auto world = comm::make_world(&context.argc, &context.argv);
#ifdef WEFT_CUDA
  world = comm::make_nccl_world(std::move(world));
#endif
  log::set_rank(world->rank(), world->size());
  return world;
}

void tell_at_once(const std::exception& e, const comm::World& world) {
  const std::string message = message_of(e);
  if (message.empty()) throw;
  tell_error(message);
  // Freeing the memory of a device waits for the collectives there, and these for other ranks, which may wait
  // for this one. So nothing is taken down, and all end.
  if (!device_is_host() && world.size() > 1) comm::end_all_ranks(static_cast<int>(exit_code_of(e)));
  throw ToldError(exit_code_of(e));
}

}  // namespace weft::cli
