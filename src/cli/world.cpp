#include "cli/world.hpp"

#include "base/log.hpp"
#ifdef WEFT_CUDA
#include "comm/nccl/nccl.hpp"
#endif

namespace weft::cli {

std::unique_ptr<comm::World> make_training_world(Context& context) {
  auto world = comm::make_world(&context.argc, &context.argv);
#ifdef WEFT_CUDA
  world = comm::make_nccl_world(std::move(world));
#endif
  log::set_rank(world->rank());
  return world;
}

}  // namespace weft::cli
